"""Limits of messages: sizes of numbers and texts that the whole farm can handle.

Submitters check jobs for an immediate error; the scheduler checks what it receives, and builder
hosts their commands. What is checked follows from a value's type, so a new field is bounded too,
and from the limit that a job's field declares; ``LIMITS`` names the fields of messages with limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sized
from functools import cache
from typing import Any

import msgspec

from farm.core.events import PoolSize
from farm.core.fields import Limit, limit_of
from farm.core.model import LEAST_LEVEL, MAX_LEVEL, MAX_NEEDS, Cause, Job
from farm.live.wire.messages import MAX_REPORTS, Envelope, HostCommand, Report

#: characters of an id: of a job, a builder, a host
MAX_ID = 256
#: characters of a job's kind, matrix, attribute, …
MAX_TEXT = 1000
#: attributes of a job, labels of a builder, parts of an invocation, processors, …
MAX_ITEMS = 64
#: builders that one plan may ask for, or one host may announce room for
MAX_BUILDERS = 100_000
#: slots of a builder
MAX_SLOTS = 10_000
#: jobs in one submission or one cancellation
MAX_JOBS = 1000
#: attempts and builders in one heartbeat
MAX_HELD = 100_000
#: a counter on the wire: no more than a float holds exactly
MAX_COUNT = 2**53

Check = Callable[[str, Any], None]
"""Given a value (not None) and what it is called; raises _FlawError."""


class _FlawError(Exception):
    """An unacceptable value."""


def flaw_of(job: Job) -> str | None:
    """Return what makes a submitted job unacceptable; None if it is acceptable."""
    return _flaw(_id, "job id", job.id) or _flaw(_value, f"job {job.id}:", job)


def flaw_of_envelope(envelope: Envelope[Report]) -> str | None:
    """Return what makes an envelope unacceptable, apart from its reports, or None."""
    return _flaw(_value, "message:", envelope)


def flaw_of_message(message: Report | HostCommand) -> str | None:
    """Return what makes a report or command unacceptable, or None.

    The jobs of a submission are not checked: they are accepted one by one.
    """
    return _flaw(_value, f"{type(message).__name__}:", message)


def readable(text: str) -> str:
    """Return the printable part of a reason or remark, which is not worth refusing."""
    return text if text.isprintable() and len(text) <= MAX_TEXT else ascii(text[:MAX_TEXT])[1:-1]


def _flaw(check: Check, name: str, value: object) -> str | None:
    try:
        check(name, value)
    except _FlawError as flaw:
        return str(flaw)
    return None


def _value(name: str, value: object) -> None:
    """Check a value by its type; booleans and enumerations need no limits."""
    if (check := _BY_TYPE.get(type(value))) is not None:
        check(name, value)
    elif isinstance(value, msgspec.Struct):
        try:
            for field, check, default in _fields(type(value)):
                if (part := getattr(value, field)) is not default and part is not None:
                    check(field, part)
        except _FlawError as flaw:
            raise _FlawError(f"{name} {flaw}") from None


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Check, object], ...]:
    """Return the fields of a struct, each with its check, and its default, which needs none."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    checks = [_check_of(kind, field) for field in msgspec.structs.fields(kind)]
    required = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    return tuple(zip(names, checks, (*required, *defaults), strict=True))


def _check_of(kind: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Check:
    name, limit = field.name, limit_of(field.type)
    by_name = LIMITS.get(f"{kind.__name__}.{name}") or LIMITS.get(name, _value)
    return by_name if limit is None else _both(by_name, limit)


def _both(by_name: Check, limit: Limit) -> Check:
    within = _within(*limit)

    def check(name: str, value: object) -> None:
        by_name(name, value)
        within(name, value)

    return check


def _within(allowed: str, holds: Callable[[Any], bool]) -> Check:
    def check(name: str, value: object) -> None:
        if not holds(value):
            is_long = isinstance(value, int) and abs(value) >= 10**40
            shown = "of very many digits" if is_long else getattr(value, "value", value)
            shown = "''" if shown == "" else shown
            raise _FlawError(f"{name} {shown}; allowed: {allowed}")

    return check


def _whole(least: int, most: int) -> Check:
    return _within(f"from {least} to {most}", lambda number: least <= number <= most)


def _at_most(most: int, each: Check | None = None) -> Check:
    def check(name: str, items: Sized) -> None:
        if len(items) > most:
            raise _FlawError(f"{len(items)} {name}: up to {most} are allowed")
        if each is not None and isinstance(items, tuple):
            for item in items:
                each(name, item)

    return check


def _id(name: str, text: str) -> None:
    if not text or len(text) > MAX_ID:
        raise _FlawError(f"{name} of {len(text)} characters: 1 to {MAX_ID} are allowed")
    _text(name, text)


def _id_or_struct(name: str, value: object) -> None:
    check: Check = _id if isinstance(value, str) else _value
    check(name, value)


def _text(name: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        raise _FlawError(f"{name} of {len(text)} characters: up to {MAX_TEXT} are allowed")
    if not text.isprintable():
        raise _FlawError(f"{name} {text!r:.100} has control characters")


def _pairs(name: str, pairs: Mapping[str, object]) -> None:
    _items(name, pairs)
    one = name.removesuffix("s")
    for key, value in pairs.items():
        _text(f"{one} name", key)
        _value(f"{one} {key:.50}", value)


def _weights(name: str, weights: dict[str, float]) -> None:
    _pairs(name, weights)
    for key, weight in weights.items():
        _weight(f"weight {key}", weight)


def _sizes(name: str, sizes: dict[str, PoolSize]) -> None:
    _items(name, sizes)
    for pool, size in sizes.items():
        _id("pool", pool)
        for key in size.__struct_fields__:
            if (number := getattr(size, key)) is not None:
                _whole(0, MAX_BUILDERS)(f"{pool}: {key}", number)


def _unlimited(_: str, __: object) -> None:
    """Accept what people read: it is made ``readable`` where it is shown."""


def _part(name: str, part: float | None) -> None:
    if part is not None:
        _within("from 0 to 1", lambda share: 0 <= share <= 1)(name, part)


_items = _at_most(MAX_ITEMS, _value)
_number = _within("a finite number", math.isfinite)
_span = _within("a finite number, 0 or more", lambda span: 0 <= span < math.inf)
_weight = _within("above 0, below 1e9", lambda weight: 0 < weight < 1e9)
_BY_TYPE: dict[type, Check] = {
    str: _text,
    int: _whole(LEAST_LEVEL, MAX_LEVEL),
    float: _number,
    tuple: _items,
    dict: _pairs,
}
LIMITS: dict[str, Check] = {
    **dict.fromkeys(("id", "sender", "life", "pattern", "reply_to"), _id),
    **dict.fromkeys(("job", "builder"), _id_or_struct),
    **dict.fromkeys(("boot_delay", "boot_time", "lifetime", "expected_time"), _span),
    **dict.fromkeys(("attempt", "Builder.cores", "Builder.uses"), _whole(1, MAX_LEVEL)),
    **dict.fromkeys(("desired", "start", "stop", "booting", "joined"), _whole(0, MAX_BUILDERS)),
    **dict.fromkeys(("held", "builders", "retiring"), _at_most(MAX_HELD)),
    "Beat.done": _at_most(MAX_HELD, _part),
    "Watch.token": _id,
    "Watch.interval": _span,
    "Ask.job": _text,
    "room": _whole(0, MAX_BUILDERS),
    "slot": _whole(0, MAX_SLOTS),
    "slots": _whole(1, MAX_SLOTS),
    "index": _whole(-1, MAX_LEVEL),
    "seq": _whole(1, MAX_COUNT),
    "serial": _whole(0, MAX_COUNT),
    "waiting": _whole(0, MAX_COUNT),
    "speed": _within("a finite number above 0", lambda speed: 0 < speed < math.inf),
    "factors": _at_most(MAX_HELD, _number),
    "weights": _weights,
    "pools": _sizes,
    "aging_factor": _within("from 0, below 1e9", lambda factor: 0 <= factor < 1e9),
    "cause": _within(Cause.REQUESTED.value, lambda cause: cause is Cause.REQUESTED),
    "reports": _at_most(MAX_REPORTS),
    "JobsSubmitted.jobs": _at_most(MAX_JOBS),
    "CancelRequested.jobs": _at_most(MAX_JOBS, _id),
    "CancelRequested.reason": _text,
    "needs": _at_most(MAX_NEEDS, _text),
    "needs_delay": _span,
    **dict.fromkeys(("reason", "why"), _unlimited),
}
"""The limits of fields, by their names or those of their messages and theirs."""
