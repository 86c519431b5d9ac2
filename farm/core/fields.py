"""Fields as they come in: what one may hold stands where it is declared, and nowhere else.

``level: Annotated[int, LEVEL] = 0``, where ``LEVEL = limit("a whole number, from …", …)``.
Tables, JSON lines, scenarios, the user's own code and the wire all check it. Decoding does not: it
would refuse a message of a thousand jobs for one of them, and the log of an earlier version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

R = TypeVar("R", bound=msgspec.Struct)

_SECONDS = frozenset({"at", "boot_delay", "lifetime", "makespan", "needs_delay", "run_phase"})
"""Fields in seconds that ``json_name`` does not recognise by their names."""


class Limit(NamedTuple):
    """What is allowed, in words, and whether a value of the right type is."""

    allowed: str
    holds: Callable[[Any], bool]


def _anything(_: object) -> bool:
    return True


def limit(allowed: str, holds: Callable[[Any], bool] = _anything) -> msgspec.Meta:
    """Return the annotation that limits a field; None is allowed where the type allows it."""
    return msgspec.Meta(extra={"limit": Limit(allowed, holds)})


class FieldError(ValueError):
    """A value that a field cannot have; the text is ``found …; allowed: …``."""

    def __init__(self, name: str, found: str, allowed: str) -> None:
        super().__init__(f"found {found:.60}; allowed: {allowed}")
        self.name = name


class Field(NamedTuple):
    """A field of a record."""

    name: str
    #: its name in files and environments
    key: str
    #: its type without None, and as it is declared
    kind: Any
    hint: object
    #: msgspec.NODEFAULT: it is required
    default: object
    limit: Limit
    #: makes a value of text
    read: Callable[[str], object]

    def refuse(self, found: object) -> FieldError:
        """Return the error for a value that it cannot have."""
        is_long = isinstance(found, int) and abs(found) >= 10**60  # Python may refuse to write it
        shown = "a very long number" if is_long else repr(found)
        return FieldError(self.name, shown, self.limit.allowed)

    def of_text(self, text: str) -> object:
        """Return the value that is written: a number, ``true``, text, or JSON; or FieldError."""
        try:
            value = self.read(text)
        except (ValueError, KeyError, msgspec.DecodeError, RecursionError):
            raise self.refuse(text) from None
        if not self.limit.holds(value):
            raise self.refuse(text)
        return value

    def fits(self, value: object) -> bool:
        """Return whether a value is of the declared type."""
        try:
            msgspec.convert(value, self.hint)
        except (msgspec.ValidationError, UnicodeError):
            return False
        return True


def _whole(text: str) -> int:
    if not (number := float(text)).is_integer():
        raise ValueError(text)
    return int(number)


def _flag(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


def texts_of(text: str) -> tuple[str, ...]:
    """Return texts that are separated by semicolons."""
    return tuple(filter(None, (part.strip() for part in text.split(";"))))


# tables are written by many hands: "+5", ".5" and " 5" are numbers, though not in JSON
_READERS: dict[object, Callable[[str], object]] = {
    str: str,
    int: _whole,
    float: float,
    bool: _flag,
    tuple[str, ...]: texts_of,
}
_BY_TYPE: dict[object, Limit] = {
    str: Limit("text", _anything),
    int: Limit("a whole number", _anything),
    float: Limit("a finite number", math.isfinite),
    bool: Limit("true or false", _anything),
    dict: Limit("a JSON object of texts", _anything),
    tuple: Limit("texts separated by ;", _anything),
}


@cache
def fields_of(record: type[msgspec.Struct]) -> dict[str, Field]:
    """Return the fields of a record by name."""
    kinds = get_type_hints(record)
    return {one.name: _field(one, kinds[one.name]) for one in msgspec.structs.fields(record)}


@cache
def _limited(record: type[msgspec.Struct]) -> list[tuple[str, Callable[[Any], bool]]]:
    limits = [(name, field.limit.holds) for name, field in fields_of(record).items()]
    return [(name, holds) for name, holds in limits if holds is not _anything]


def limit_of(hint: object) -> Limit | None:
    """Return the limit that a field declares, if any."""
    marks = getattr(hint, "__metadata__", ())
    return next((mark.extra["limit"] for mark in marks if "limit" in (mark.extra or {})), None)


def _field(declared: msgspec.structs.FieldInfo, kind: object) -> Field:
    default = declared.default
    if declared.default_factory is not msgspec.NODEFAULT:
        default = declared.default_factory()
    if NoneType in (parts := get_args(kind)):
        kind = next(part for part in parts if part is not NoneType)
    limit = limit_of(declared.type) or _by_type(kind)
    read = _READERS.get(kind) or msgspec.json.Decoder(kind).decode
    return Field(declared.name, declared.encode_name, kind, declared.type, default, limit, read)


def _by_type(kind: object) -> Limit:
    if get_origin(kind) is Literal:
        return Limit(", ".join(get_args(kind)), _anything)
    return _BY_TYPE.get(get_origin(kind) or kind, Limit(f"a {kind}", _anything))


def record_of(record: type[R], given: Mapping[str, object]) -> R:
    """Return the record of these values; raises FieldError for one that is wrong or missing."""
    try:
        made = msgspec.convert(given, record)
    except msgspec.ValidationError:
        for field in misfits(record, given):
            if field.name in given:
                raise field.refuse(given[field.name]) from None
            raise FieldError(field.name, "nothing", field.limit.allowed) from None
        raise
    for name, holds in _limited(record):
        if (value := getattr(made, name)) is not None and not holds(value):
            raise fields_of(record)[name].refuse(value)
    return made


def misfits(record: type[msgspec.Struct], given: Mapping[str, object]) -> Iterator[Field]:
    """Yield the fields that are missing, or have a value of another type."""
    for name, field in fields_of(record).items():
        if not field.fits(given[name]) if name in given else field.default is msgspec.NODEFAULT:
            yield field


def json_name(name: str) -> str:
    """Return the key of a field in files: ``service_time`` is ``service_time_s``."""
    return f"{name}_s" if name in _SECONDS or name.endswith(("_at", "_time")) else name
