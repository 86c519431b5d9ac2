"""The state file of ``farm admin estimate``: a farm at one instant, as JSON.

::

    {"builders": [{"name", "processors": ["i386"], "virtualized": true, "ok": true,
                   "manual": false, "slots": 1}],
     "jobs": [{"id", "name", "processor": "i386"|null, "virtualized": true|false|null, "score",
               "duration_s", "status": "waiting|running|cancelling|suspended",
               "builder"?, "elapsed_s"?}],
     "order": [names of the waiting jobs in dispatch order]?}

``ok``, ``manual`` and ``slots`` may be omitted (usable, one slot). Without ``order`` the waiting
jobs are sorted by score, then by id. Unknown keys are ignored, because a snapshot may contain
more, unless they look like misspellings of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, TypeVar

import msgspec

from farm.core.errors import StateError, nearest
from farm.core.fields import Field, fields_of, limit, misfits
from farm.forecasts.dispatch.view import BuilderView, FarmView, JobView, Name

_OPTIONAL = {"order", "ok", "manual", "slots", "builder", "elapsed_s"}

T = TypeVar("T")


class _State(msgspec.Struct):
    """The content of the file; its records are the estimator's input."""

    builders: Annotated[tuple[BuilderView, ...], limit("a list of builders")]
    jobs: Annotated[tuple[JobView, ...], limit("a list of jobs")]
    order: Annotated[tuple[Name, ...] | None, limit("a list of job names, or null")] = None


Record = type[_State | BuilderView | JobView]


def parse_state(text: str, source: str) -> FarmView:
    """Parse the text of a state file; ``source`` is its name in messages.

    Raises StateError, naming the file and the key, for anything that is not such a file.
    """
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


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {_first_repeated(keys)!r} twice in one object")
    return record


def _farm(document: object) -> FarmView:
    for where, found, record in _records(document):
        _check_keys(where, found, fields_of(record))
    try:
        state = msgspec.convert(document, _State)
    except (msgspec.ValidationError, UnicodeError):
        raise _explained(document) from None
    _must_differ("builders", "name", [builder.name for builder in state.builders])
    _must_differ("jobs", "id", [job.id for job in state.jobs])
    _must_differ("jobs", "name", [job.name for job in state.jobs])
    names = {builder.name for builder in state.builders}
    for place, job in enumerate(state.jobs):
        _check_builder(f"jobs[{place}]", job, names)
    order = None if state.order is None else _order(state.order, state.jobs)
    return FarmView(state.builders, state.jobs, order)


def _records(document: object) -> Iterator[tuple[str, dict[str, object], Record]]:
    """Yield every object of the document, with its path and its kind."""
    state = _mapping("state", document)
    yield "state", state, _State
    kinds: dict[str, Record] = {"builders": BuilderView, "jobs": JobView}
    for what, kind in kinds.items():
        rows = state.get(what)
        for place, row in enumerate(rows if isinstance(rows, list) else ()):
            where = f"{what}[{place}]"
            yield where, _mapping(where, row), kind


def _mapping(where: str, found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise StateError(f"{where}: found {_show(found)}; allowed: an object")
    return found


def _check_keys(where: str, found: dict[str, object], keys: dict[str, Field]) -> None:
    for key in sorted(found.keys() - keys.keys()):
        # a key that is present as well is not a misspelling of this one
        near = nearest(key, keys.keys() - found.keys(), cutoff=0.75)
        if near:
            raise StateError(f"{where}: unknown key {key!r}; did you mean {near!r}?")
    for key, field in keys.items():
        if key not in found and key not in _OPTIONAL:
            raise StateError(f"{where}: key {key!r} is missing; allowed: {field.limit.allowed}")


def _explained(document: object) -> StateError:
    """Return what msgspec did not accept, and what is allowed: of the inner objects first."""
    state, *rows = _records(document)
    for where, found, record in (*rows, state):
        for field in misfits(record, found):
            return _refused(where, field.name, found[field.name], field.limit.allowed)
    raise AssertionError(document)


def _refused(where: str, key: str, found: object, allowed: str) -> StateError:
    return StateError(f"{where}.{key}: found {_show(found)}; allowed: {allowed}")


def _check_builder(where: str, job: JobView, builders: set[str]) -> None:
    if job.builder is not None and job.builder not in builders:
        listed = f" ({', '.join(sorted(builders))})" if 0 < len(builders) <= 12 else ""
        raise _refused(where, "builder", job.builder, f"one of the builders{listed}")
    if job.builder is None and job.status in ("running", "cancelling"):
        allowed = f"the builder's name, because the job is {job.status}"
        raise _refused(where, "builder", None, allowed)


def _order(names: tuple[str, ...], jobs: tuple[JobView, ...]) -> tuple[int, ...]:
    waiting = {job.name: job.id for job in jobs if job.status == "waiting"}
    if len(set(names)) != len(names):
        raise StateError(f"order: names job {_first_repeated(names)!r} twice")
    for name in names:
        if name not in waiting:
            raise StateError(f"order: found {name!r}; allowed: names of waiting jobs")
    for name in sorted(waiting.keys() - set(names)):
        raise StateError(f"order: waiting job {name!r} is missing; allowed: all of them, once")
    return tuple(waiting[name] for name in names)


def _must_differ(what: str, key: str, values: Sequence[object]) -> None:
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


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
