"""``taskcluster``: a datastore.json, as the pages of the Taskcluster simulator read it.

Six kinds of events, analysed in one pass.

Times are milliseconds since the beginning of the run phase, negative before it, as upstream.
Jobs and builders that ended before the phase, or began after it, are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np

from farm.core.errors import InputError, not_among
from farm.results.log.reader import Entry
from farm.results.recorded_run import FinishedRun
from farm.results.table.builder_columns import Builders
from farm.results.table.job_columns import Jobs
from farm.results.table.recorder import Recorder

Event = list[Any]
"""``[time, name, id, …]``: task-created, task-started (task, worker), task-resolved,
worker-requested (worker, {capacity, utility}), worker-started, worker-shutdown."""
TimedEvent = tuple[float, str, str, list[Any]]
"""The same before it is timed: farm time, name, id, …."""
State = dict[str, Any]
Metric = Callable[[State], object]
Update = Callable[[State, Event], None]

#: order of simultaneous events: nothing happens on a worker before it has started
_ORDER = (
    "worker-requested",
    "worker-started",
    "task-created",
    "task-started",
    "task-resolved",
    "worker-shutdown",
)
_OF_WORKERS = ("worker-requested", "worker-started", "worker-shutdown")
#: from which map to which each event moves its subject
_MOVES = {
    "task-started": ("pendingTasks", "runningTasks", "startedTime"),
    "task-resolved": ("runningTasks", "resolvedTasks", "resolvedTime"),
    "worker-started": ("requestedWorkers", "runningWorkers", "startedTime"),
    "worker-shutdown": ("runningWorkers", "shutdownWorkers", "shutdownTime"),
}
MAPS = (
    "pendingTasks",
    "runningTasks",
    "resolvedTasks",
    "requestedWorkers",
    "runningWorkers",
    "shutdownWorkers",
)


def _size_of(name: str) -> Metric:
    return lambda state: len(state[name])


METRICS: dict[str, Metric] = {name: _size_of(name) for name in MAPS}
"""The built-in metrics: how many tasks or workers are in each state."""


def export(run: FinishedRun, out: Path) -> int:
    """Write the file; return the number of jobs."""
    store = store_of(run)
    out.write_text(store.to_json(), encoding="utf-8")
    return sum(event[1] == "task-created" for event in store.events)


def store_of(run: FinishedRun) -> EventStore:
    """Return a run's events. Raises InputError if they were not kept.

    The store's duration is the length of the run phase, also if nothing happens at its end; of a
    run without phases, or one that was interrupted before, until the last event.
    """
    phases = run.scenario.phases
    if phases is None:
        return event_store(run.entries(), 0.0, math.inf)
    begin, end = phases.ramp_up, phases.ramp_up + phases.run
    return event_store(run.entries(), begin, end, cut_short=run.state == "interrupted")


class Analysis(msgspec.Struct, frozen=True):
    """Samples, each with its ``time``, and the state after the last event of the phase."""

    metrics: list[dict[str, Any]]
    state: State


class EventStore(msgspec.Struct):
    """Events in order of time, and the length of the run phase in ms."""

    duration: float
    events: list[Event]

    @classmethod
    def from_json(cls, text: str | bytes) -> EventStore:
        """Read a ``datastore.json``; raises InputError if it is not one."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InputError(f"datastore: {error}") from None

    def to_json(self) -> str:
        """Return JSON that ``from_json``, and the original's ``fromSerializable``, can read."""
        return json.dumps({"duration": self.duration, "events": self.events})

    def analyze(
        self,
        interval: float = math.inf,
        metrics: Mapping[str, Metric] | None = None,
        initial_state: State | None = None,
        update: Update | None = None,
    ) -> Analysis:
        """Go through the events once, sampling ``metrics`` of the state at 0, interval, 2 · ….

        A sample includes all events up to and at its time. The last one is at or before
        ``duration``, whenever the last event comes; events after it are ignored. (The original
        stops with the events, so that its charts of a farm at rest end too early.)
        ``update(state, event)`` may keep more in the state than the maps of ``MAPS`` (by id); it is
        called when these are up to date. Without ``metrics`` all six are sampled. Raises InputError
        for inconsistent events.
        """
        if not interval > 0:
            raise InputError(f"interval: found {interval}; allowed: milliseconds above 0")
        wanted = METRICS if metrics is None else metrics
        state: State = {**(initial_state or {}), **{name: {} for name in MAPS}}
        samples: list[dict[str, object]] = []
        following = 0.0
        for event in (*self.events, None):
            when = math.inf if event is None else event[0]
            while following < when and following <= self.duration:
                sampled = {name: metric(state) for name, metric in wanted.items()}
                samples.append({"time": following, **sampled})
                following += interval
            if event is None or when > self.duration:
                break
            _apply(state, event)
            if update is not None:
                update(state, event)
        return Analysis(samples, state)

    def statistics(self) -> dict[str, float | None]:
        """Return the fifteen numbers of the original's summary page; None where data is missing."""
        state = self.analyze(metrics={}).state
        idle = [w for w in state["shutdownWorkers"].values() if not w["resolvedTasks"]]
        waits = [t["startedTime"] - t["createdTime"] for t in state["resolvedTasks"].values()]
        workers = [*state["runningWorkers"].values(), *state["shutdownWorkers"].values()]
        return {
            "Number of Events": len(self.events),
            "Simulation Duration": self.duration,
            "Requested Workers": len(state["requestedWorkers"]),
            "Running Workers": len(state["runningWorkers"]),
            "Shutdown Workers": len(state["shutdownWorkers"]),
            "Overprovisioned Workers": len(idle),
            "Overprovisioned Worker Time": math.fsum(
                w["shutdownTime"] - w["startedTime"] for w in idle
            ),
            **_four("wait time", waits),
            **_four("tasks per worker", [len(w["resolvedTasks"]) for w in workers]),
        }


def event_store(
    entries: Iterable[Entry], begin: float, end: float, *, cut_short: bool = False
) -> EventStore:
    """Return a run's events with the run phase from ``begin`` to ``end`` (farm seconds).

    A job is represented by its last attempt; one that was cancelled before any is left out. If
    ``end`` is infinite, or the run was ``cut_short``, the phase ends with the last event.
    """
    recorder = Recorder()
    for entry in entries:
        recorder(entry.event, entry.commands)
    records = recorder.records()
    lost = zip(records.lost.submitted_at.tolist(), records.lost.job_id, strict=True)
    events = list(_of_tasks(records.jobs))
    events += [(at, "task-created", name, []) for at, name in lost]
    events += _of_workers(records.builders)
    if cut_short or end == math.inf:
        end = min(end, max(begin, records.last_at))
    return within_phase(events, begin, end)


def _of_tasks(jobs: Jobs) -> Iterator[TimedEvent]:
    jobs = jobs.taken((jobs.builder.codes >= 0) & ~np.isnan(jobs.started_at))
    started_at, finished_at = (
        np.maximum(jobs.submitted_at, at) for at in (jobs.started_at, jobs.finished_at)
    )
    times = (jobs.submitted_at.tolist(), started_at.tolist(), finished_at.tolist())
    for name, builder, *at in zip(jobs.job_id, jobs.builder.tolist(), *times, strict=True):
        yield at[0], "task-created", name, []
        yield at[1], "task-started", name, [builder]
        yield at[2], "task-resolved", name, []


def _of_workers(builders: Builders) -> Iterator[TimedEvent]:
    requested_at = np.where(
        np.isnan(builders.requested_at), builders.joined_at, builders.requested_at
    )
    sizes = (builders.slots.tolist(), builders.speed.tolist())
    times = (at.tolist() for at in (requested_at, builders.joined_at, builders.gone_at))
    for name, slots, speed, *at in zip(builders.builder.tolist(), *sizes, *times, strict=True):
        size = {"capacity": slots, "utility": speed}
        for when, what, more in zip(at, _OF_WORKERS, ([size], [], []), strict=True):
            if not math.isnan(when):
                yield when, what, name, more


def within_phase(events: list[TimedEvent], begin: float, end: float) -> EventStore:
    """Leave out everything outside the phase, and count time from its beginning."""
    joined = {name for _, what, name, _ in events if what == "worker-started"}
    over, early = ("task-resolved", "worker-shutdown"), ("task-created", "worker-requested")
    gone = {
        (what[:4], name)
        for at, what, name, _ in events
        if (at < begin and what in over) or (at > end and what in early)
    }
    here = (one for one in events if (one[1][:4], one[2]) not in gone)
    kept = [one for one in here if one[1] != "worker-shutdown" or one[2] in joined]
    kept.sort(key=lambda one: (one[0], _ORDER.index(one[1])))
    return EventStore(
        _ms(end - begin), [[_ms(at - begin), what, name, *rest] for at, what, name, rest in kept]
    )


def _ms(seconds: float) -> float:
    """Return milliseconds, as an integer if whole: 0.1 s is 100 ms despite binary rounding."""
    return round(seconds * 1000, 6)


def _apply(state: State, event: Event) -> None:
    when, name, subject, *rest = event
    if name == "task-created":
        state["pendingTasks"][subject] = {"createdTime": when}
        return
    if name == "worker-requested":
        more = {"requestedTime": when, "runningTasks": {}, "resolvedTasks": {}}
        state["requestedWorkers"][subject] = {**(rest[0] if rest else {}), **more}
        return
    if name not in _MOVES:
        raise InputError(f"datastore: event: {not_among(name, _ORDER)}")
    source, target, field = _MOVES[name]
    if (moved := state[source].pop(subject, None)) is None:
        raise InputError(f"datastore: {name} of {subject!r:.60} at {when:g}: it is not in {source}")
    state[target][subject] = moved
    moved[field] = when
    if name == "task-started":
        moved["workerId"] = rest[0]
        _worker(state, rest[0], name)["runningTasks"][subject] = moved
    elif name == "task-resolved":
        worker = _worker(state, moved["workerId"], name)
        worker["resolvedTasks"][subject] = worker["runningTasks"].pop(subject)


def _worker(state: State, name: str, event: str) -> Any:
    found = state["runningWorkers"].get(name)
    if found is None:
        raise InputError(f"datastore: {event} on {name!r:.60}, which does not run")
    return found


def _four(what: str, values: list[float]) -> dict[str, float | None]:
    measures: dict[str, Callable[[list[float]], float]] = {
        "Minimum": min,
        "Maximum": max,
        "Mean": fmean,
        "Median": median,
    }
    return {f"{k} {what}": measure(values) if values else None for k, measure in measures.items()}
