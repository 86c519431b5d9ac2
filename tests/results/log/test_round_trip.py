"""Any history of events and commands survives the event log unchanged."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.commands import (
    IGNORED,
    CancelJob,
    EndJob,
    RequeueJob,
    RetireBuilder,
    StartJob,
)
from farm.core.events import Event, JobFinished, JobsSubmitted
from farm.core.model import Builder, Cause, Job, Platform
from farm.results.log.lines import EVENTS
from farm.results.log.reader import read_log
from farm.results.log.writer import EventLogWriter

times = st.floats(0, 1e9, allow_nan=False)
names = st.text(min_size=1, max_size=8)
outcomes = st.sampled_from(["succeeded", "failed", "cancelled"])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for a value or None."""
    return st.none() | strategy


platforms = st.builds(Platform, optional(names), optional(st.booleans()))
jobs = st.builds(
    Job,
    id=names,
    service_time=times,
    platform=platforms,
    declared_time=optional(times),
    arrived_at=optional(times),
    kind=names,
    level=st.integers(-5, 5),
    score=times,
    priority=st.integers(-100, 100),
    matrix=optional(names),
    attributes=st.dictionaries(names, names, max_size=3),
    heavy=st.booleans(),
    size=optional(times),
    action=optional(names),
    fails=st.booleans(),
    threads=st.integers(1, 4),
)
builders = st.builds(
    Builder,
    id=names,
    pool=names,
    index=st.integers(0, 100),
    processors=st.lists(names, max_size=2).map(tuple),
    virtualized=st.booleans(),
    slots=st.integers(1, 4),
    speed=st.floats(0.1, 4),
    takes_jobs=st.booleans(),
    cleans=st.booleans(),
    claims=st.booleans(),
    labels=st.dictionaries(names, names, max_size=2),
)

_by_type: dict[Any, st.SearchStrategy[Any]] = {
    float: times,
    int: st.integers(0, 10**6),
    str: names,
    bool: st.booleans(),
    Builder: builders,
    Job: jobs,
}


def of_type(annotation: Any, name: str) -> st.SearchStrategy[Any]:
    """Return a strategy for an event's field."""
    if name == "outcome":
        return outcomes
    if name == "cause":
        return st.sampled_from(Cause)
    if annotation in _by_type:
        return _by_type[annotation]
    if type(None) in getattr(annotation, "__args__", ()):
        inner = [arg for arg in annotation.__args__ if arg is not type(None)]
        return optional(of_type(inner[0], name))
    if getattr(annotation, "__origin__", None) is dict:
        keys, values = (of_type(part, name) for part in annotation.__args__)
        return st.dictionaries(keys, values, max_size=4)
    element = annotation.__args__[0]
    return st.lists(of_type(element, name), max_size=4).map(tuple)


def events(kind: type[msgspec.Struct]) -> st.SearchStrategy[Event]:
    """Return a strategy for events of one kind."""
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: of_type(field.type, field.name) for field in fields})


events = st.one_of([events(kind) for kind in EVENTS])

ends = st.builds(
    EndJob,
    job=jobs,
    outcome=outcomes,
    attempts=st.integers(0, 5),
    submitted_at=times,
    finished_at=times,
    dispatched_at=optional(times),
    started_at=optional(times),
    builder=optional(names),
    slot=optional(st.integers(0, 4)),
    reason=st.text(max_size=5),
    estimated_time=optional(times),
    served_by=optional(names),
    cause=st.sampled_from(Cause),
)
commands = st.one_of(
    ends,
    st.builds(StartJob, jobs, st.integers(1, 5), names, st.integers(0, 4)),
    st.builds(CancelJob, names, st.integers(1, 5), names, names),
    st.builds(RequeueJob, names, st.integers(1, 5), names, names),
    st.builds(RetireBuilder, names),
)


@st.composite
def entries(draw: st.DrawFn) -> tuple[Event, Any]:
    """Draw an event with commands; often of jobs that were submitted before, with matching ends."""
    event = draw(events)
    if draw(st.integers(0, 4)) == 0:
        return event, IGNORED
    orders = draw(st.lists(commands, max_size=3))
    if isinstance(event, JobFinished) and draw(st.booleans()):
        orders = [draw(caused_end(event)), *orders]
    if isinstance(event, JobsSubmitted) and draw(st.booleans()):
        orders = [*orders, *(StartJob(job, 1, "b", 0) for job in event.jobs)]
    return event, orders


@st.composite
def caused_end(draw: st.DrawFn, event: JobFinished) -> EndJob:
    """Draw an end that is logged on the event's own line."""
    end = draw(ends)
    return msgspec.structs.replace(
        end,
        job=msgspec.structs.replace(end.job, id=event.job),
        outcome=event.outcome,
        attempts=event.attempt,
        finished_at=event.at,
        builder=event.builder,
        reason=event.reason,
    )


@given(st.lists(entries(), max_size=12), st.integers(1, 5))
@settings(deadline=None)
def test_any_history_reads_back_exactly(history: list[Any], buffer_lines: int) -> None:
    """The log loses or changes no event and no command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with EventLogWriter(path, buffer_lines) as write:
            for event, orders in history:
                write(event, orders)
        back = list(read_log(path))
    assert [entry.event for entry in back] == [event for event, _ in history]
    assert [list(entry.commands) for entry in back] == [list(orders) for _, orders in history]
    assert [entry.ignored for entry in back] == [orders is IGNORED for _, orders in history]
