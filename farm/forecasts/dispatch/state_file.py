"""The state file of ``farm estimate``: a farm at one moment, as JSON.

::

    {"builders": [{"name", "processors": ["i386"], "virtualized": true, "ok": true,
                   "manual": false, "slots": 1}],
     "jobs": [{"id", "name", "processor": "i386"|null, "virtualized": true|false|null, "score",
               "duration_s", "status": "waiting|running|cancelling|suspended",
               "builder"?, "elapsed_s"?}],
     "order": [names of the waiting jobs in dispatch order]?}

``ok``, ``manual`` and ``slots`` may be left out (usable, one slot). Without ``order`` the waiting
jobs go by score, then by id. Keys that this reader does not know are passed over, because a
snapshot may say more, unless they look like a misspelt one of these.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from farm.core.errors import StateError
from farm.forecasts.dispatch import BuilderView, FarmView, JobStatus, JobView

_FARM_KEYS = frozenset(("builders", "jobs", "order"))
_BUILDER_KEYS = frozenset(("name", "processors", "virtualized", "ok", "manual", "slots"))
_JOB_KEYS = frozenset(
    ("id", "name", "processor", "virtualized", "score", "duration_s", "status", "builder")
) | {"elapsed_s"}
_STATUSES: tuple[str, ...] = get_args(JobStatus)
_HOLDS_A_BUILDER = ("running", "cancelling")
#: beyond this a sum of a million durations is no longer exact to the second
_LONGEST_S = 1e9
_SECONDS = f"a number of seconds from 0 to {_LONGEST_S:.0e}, or null"
_ID_LIMIT = 2**63

T = TypeVar("T")


class _Record:
    """One JSON object of the file, read key by key; every complaint says where."""

    def __init__(self, found: object, where: str, known: frozenset[str]) -> None:
        self.where = where
        if not isinstance(found, dict):
            raise StateError(f"{where}: found {_show(found)}; allowed: an object")
        self._found = found
        for key in sorted(found.keys() - known):
            # a key that is there too is not what this one was meant to be
            near = difflib.get_close_matches(key, known - found.keys(), n=1, cutoff=0.75)
            if near:
                raise StateError(f"{where}: unknown key {key!r}; did you mean {near[0]!r}?")

    def refuse(self, key: str, found: object, allowed: str) -> NoReturn:
        """Complain about a key's value."""
        raise StateError(f"{self.where}.{key}: found {_show(found)}; allowed: {allowed}")

    def read(self, key: str, accept: Callable[[Any], bool], allowed: str, *default: Any) -> Any:
        """Return a key's value when it is acceptable; the default when the key is absent."""
        if key not in self._found:
            if default:
                return default[0]
            raise StateError(f"{self.where}: key {key!r} is missing; allowed: {allowed}")
        value = self._found[key]
        if not accept(value):
            self.refuse(key, value, allowed)
        return value


def read_state(path: Path) -> FarmView:
    """Read a state file.

    Raises StateError, naming the file and the key, for anything that is not such a file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise StateError(f"{path}: cannot be read: {reason}") from None
    return parse_state(text, str(path))


def parse_state(text: str, source: str) -> FarmView:
    """Turn the text of a state file into values; ``source`` is its name in messages."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        message = f"{source}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        raise StateError(message) from None
    except (ValueError, RecursionError) as error:
        raise StateError(f"{source}: not JSON: {error}") from None
    try:
        return _farm(document)
    except StateError as error:
        raise StateError(f"{source}: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {_first_repeated(keys)!r} twice in one object")
    return record


def _farm(document: object) -> FarmView:
    record = _Record(document, "state", _FARM_KEYS)
    rows = record.read("builders", _is_list, "a list of builders")
    builders = tuple(_builder(row, f"builders[{i}]") for i, row in enumerate(rows))
    _must_differ("builders", "name", [builder.name for builder in builders])
    names = {builder.name for builder in builders}
    rows = record.read("jobs", _is_list, "a list of jobs")
    jobs = tuple(_job(row, f"jobs[{i}]", names) for i, row in enumerate(rows))
    _must_differ("jobs", "id", [job.id for job in jobs])
    _must_differ("jobs", "name", [job.name for job in jobs])
    order = record.read("order", _is_names_or_none, "a list of job names, or null", None)
    return FarmView(builders, jobs, None if order is None else _order(order, jobs))


def _builder(found: object, where: str) -> BuilderView:
    record = _Record(found, where, _BUILDER_KEYS)
    return BuilderView(
        name=record.read("name", _is_name, "a name (text)"),
        processors=tuple(record.read("processors", _is_names, "a list of processor names (text)")),
        virtualized=record.read("virtualized", _is_bool, "true or false"),
        ok=record.read("ok", _is_bool, "true or false", True),
        manual=record.read("manual", _is_bool, "true or false", False),
        slots=record.read("slots", _is_slots, "a whole number from 1 up", 1),
    )


def _job(found: object, where: str, builders: set[str]) -> JobView:
    record = _Record(found, where, _JOB_KEYS)
    job = JobView(
        id=record.read("id", _is_id, "a whole number"),
        name=record.read("name", _is_name, "a name (text)"),
        processor=record.read(
            "processor", _is_name_or_none, "a processor name (text), or null for any"
        ),
        virtualized=record.read(
            "virtualized", lambda v: v is None or _is_bool(v), "true, false or null"
        ),
        score=float(record.read("score", _is_number, "a finite number")),
        duration_s=_span(record.read("duration_s", _is_seconds_or_none, _SECONDS)),
        status=record.read("status", lambda v: v in _STATUSES, ", ".join(_STATUSES)),
        builder=record.read("builder", _is_name_or_none, "the name of a builder", None),
        elapsed_s=_span(record.read("elapsed_s", _is_seconds_or_none, _SECONDS, None)),
    )
    if job.builder is not None and job.builder not in builders:
        record.refuse("builder", job.builder, f"one of the builders{_listed(builders)}")
    if job.builder is None and job.status in _HOLDS_A_BUILDER:
        record.refuse("builder", None, f"the builder's name, because the job is {job.status}")
    return job


def _span(seconds: float | None) -> float | None:
    # JSON's whole numbers are ints, and spans are floats inside the house
    return None if seconds is None else float(seconds)


def _order(names: list[str], jobs: tuple[JobView, ...]) -> tuple[int, ...]:
    waiting = {job.name: job.id for job in jobs if job.status == "waiting"}
    if len(set(names)) != len(names):
        raise StateError(f"order: names job {_first_repeated(names)!r} twice")
    for name in names:
        if name not in waiting:
            raise StateError(f"order: found {name!r}; allowed: names of waiting jobs")
    for name in sorted(waiting.keys() - set(names)):
        raise StateError(f"order: waiting job {name!r} is missing; allowed: all of them, once")
    return tuple(waiting[name] for name in names)


def _must_differ(what: str, key: str, values: list[Any]) -> None:
    if len(set(values)) != len(values):
        found = _first_repeated(values)
        where = [i for i, value in enumerate(values) if value == found]
        raise StateError(f"{what}[{where[1]}].{key}: {found!r} is taken by {what}[{where[0]}]")


def _first_repeated(values: Iterable[T]) -> T:
    seen: set[T] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    raise ValueError("nothing is repeated")


def _listed(names: set[str]) -> str:
    return f" ({', '.join(sorted(names))})" if 0 < len(names) <= 12 else ""


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_name_or_none(value: object) -> bool:
    return value is None or _is_name(value)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_name, value))


def _is_names_or_none(value: object) -> bool:
    return value is None or _is_names(value)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_id(value: Any) -> bool:
    return _is_whole(value) and -_ID_LIMIT <= value < _ID_LIMIT


def _is_slots(value: Any) -> bool:
    return _is_whole(value) and 1 <= value <= 1_000_000


def _is_number(value: Any) -> bool:
    # the bound also refuses whole numbers too long for a float
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -1e300 < value < 1e300
        and math.isfinite(value)
    )


def _is_seconds_or_none(value: Any) -> bool:
    return value is None or (_is_number(value) and 0 <= value <= _LONGEST_S)
