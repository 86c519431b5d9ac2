"""Any history of events and commands survives the event log unchanged."""

from __future__ import annotations

import json
import tempfile
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.commands import IGNORED, EndJob, StartJob
from farm.core.events import Event, JobFinished, JobsSubmitted
from farm.results.log.lines import COMMANDS, EVENTS
from farm.results.log.reader import read_log, select
from farm.results.log.writer import EventLogWriter
from farm.results.table.builder_columns import BuilderLives

times = st.floats(0, 1e9, allow_nan=False)
names = st.text(min_size=1, max_size=8)


_by_type: dict[Any, st.SearchStrategy[Any]] = {
    float: times,
    int: st.integers(0, 10**6),
    str: names,
    bool: st.booleans(),
}


def of_type(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a field of an event or a command."""
    arguments = get_args(annotation)
    if annotation in _by_type:
        return _by_type[annotation]
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return built(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    if get_origin(annotation) is Literal:
        return st.sampled_from(arguments)
    if get_origin(annotation) is Annotated:
        return of_type(arguments[0])
    if type(None) in arguments:
        return st.none() | of_type(arguments[0])
    if get_origin(annotation) is dict:
        return st.dictionaries(*map(of_type, arguments), max_size=3)
    return st.lists(of_type(arguments[0]), max_size=4).map(tuple)


@cache
def built(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Return a strategy for values of one kind, with any value in any field."""
    hints = get_type_hints(kind, include_extras=True)
    if kind is EndJob:
        del hints["pool"]  # that of its builder, as long as it is there
    values: st.SearchStrategy[Any] = st.builds(
        kind, **{name: of_type(hint) for name, hint in hints.items()}
    )
    if kind is JobsSubmitted:  # without jobs nothing is needed
        return values.map(lambda one: one if one.jobs else JobsSubmitted(one.at, ()))
    return values


events = st.one_of([built(kind) for kind in EVENTS])
commands = st.one_of([built(kind) for kind in COMMANDS])


@st.composite
def entries(draw: st.DrawFn) -> tuple[Event, Any]:
    """Draw an event with commands; often of jobs that were submitted before, with matching ends."""
    event = draw(events)
    if draw(st.integers(0, 4)) == 0:
        return event, IGNORED
    found = draw(st.lists(commands, max_size=3))
    if isinstance(event, JobFinished) and draw(st.booleans()):
        found = [draw(caused_end(event)), *found]
    if isinstance(event, JobsSubmitted) and draw(st.booleans()):
        found = [*found, *(StartJob(job, 1, "b", 0) for job in event.jobs)]
    return event, found


@st.composite
def caused_end(draw: st.DrawFn, event: JobFinished) -> EndJob:
    """Draw an end that is logged on the event's own line."""
    end = draw(built(EndJob))
    return msgspec.structs.replace(
        end,
        job=msgspec.structs.replace(end.job, id=event.job),
        outcome=event.outcome,
        attempts=event.attempt,
        finished_at=event.at,
        builder=event.builder,
        reason=event.reason,
    )


@given(st.lists(entries(), max_size=6), st.integers(1, 5))
@settings(deadline=None)
def test_any_history_reads_back_exactly(history: list[Any], buffer_lines: int) -> None:
    """The log loses or changes no event and no command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with EventLogWriter(path, buffer_lines) as write:
            for event, found in history:
                write(event, found)
        back = list(read_log(path))
        lines = path.read_bytes().splitlines(keepends=True)
    some = list(select(lines, BuilderLives.MADE_OF))
    # as other programs write JSON, and cut off
    spaced = [f"{json.dumps(json.loads(line))}\n".encode() for line in lines]
    assert list(select([*spaced, b'{"at_s":1.0,"event":"builder-joined","bui'],
                     BuilderLives.MADE_OF)) == some  # fmt: skip
    assert [entry.event for entry in back] == [event for event, _ in history]
    assert [list(entry.commands) for entry in back] == [list(found) for _, found in history]
    assert [entry.ignored for entry in back] == [found is IGNORED for _, found in history]
    assert some == [
        (event.at, one)
        for event, found in history
        for one in ([] if found is IGNORED else [event, *found])
        if isinstance(one, BuilderLives.MADE_OF)
    ]
