"""What builders did with their time, within a window of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from farm.core.commands import EndJob
from farm.core.model import Job
from farm.results.json_names import door_name
from farm.results.summary.records import BuilderSpan, RunRecords


class Window(msgspec.Struct, frozen=True):
    """The part of a run that counts: start ≤ t < end, seconds of farm time."""

    start: float = float("-inf")
    end: float = float("inf")

    def holds(self, at: float | None) -> bool:
        """Whether an instant lies in the window (None does not)."""
        return at is not None and self.start <= at < self.end

    def overlap(self, start: float, end: float) -> float:
        """Return how much of a span lies in the window, seconds."""
        return max(0.0, min(end, self.end) - max(start, self.start))


class BuilderCounts(msgspec.Struct, frozen=True, rename=door_name):
    """Builders in the window: what happened to how many, and how many were there at most.

    A builder is over-provisioned when it joined in the window and never in its life ran a job.
    """

    requested: int
    joined: int
    retired: int
    lost: int
    max_running: int
    over_provisioned: int
    over_provisioned_time: float


class BuilderTimes(msgspec.Struct, frozen=True):
    """Seconds in the window, over all builders."""

    #: builders there (joined, not yet gone)
    present: float
    #: slots there: the same, each builder times its slots
    slots: float
    #: slots that held a job, from its dispatch to its end
    busy: float


def builder_counts(records: RunRecords, window: Window) -> BuilderCounts:
    """Count what happened to builders in the window."""
    spans = records.builders
    worked = {builder for builder, *_ in attempts(records)}
    idle = [s for s in spans if window.holds(s.joined_at) and s.builder not in worked]
    return BuilderCounts(
        requested=sum(window.holds(s.requested_at) for s in spans),
        joined=sum(window.holds(s.joined_at) for s in spans),
        retired=sum(s.end == "retired" and window.holds(s.gone_at) for s in spans),
        lost=sum(s.end == "lost" and window.holds(s.gone_at) for s in spans),
        max_running=_most_present(spans, window),
        over_provisioned=len(idle),
        over_provisioned_time=sum(_present(s, window, records.last_at) for s in idle),
    )


def builder_times(records: RunRecords, window: Window) -> BuilderTimes:
    """Add up the builders' time in the window."""
    present = [(_present(s, window, records.last_at), s.slots) for s in records.builders]
    return BuilderTimes(
        present=sum(time for time, _ in present),
        slots=sum(time * slots for time, slots in present),
        busy=_busy(list(attempts(records)), window),
    )


def _busy(held: Sequence[tuple[str, Job | None, float, float]], window: Window) -> float:
    """Add up how much of each attempt lies in the window, in order."""
    starts, ends = (np.array([one[place] for one in held], np.float64) for place in (2, 3))
    inside = np.minimum(ends, window.end) - np.maximum(starts, window.start)
    lasted: list[float] = np.maximum(0.0, inside).tolist()
    return sum(lasted)


def attempts(records: RunRecords) -> Iterator[tuple[str, Job | None, float, float]]:
    """Yield (builder, job, dispatched, ended) of every attempt that held a slot and is over."""
    shared: dict[tuple[str | None, int | None, float | None], EndJob] = {}
    for end in records.ends:
        if end.served_by is not None:
            shared[end.builder, end.slot, end.dispatched_at] = end
    for end in records.ends:
        if end.builder is None or end.dispatched_at is None or end.served_by is not None:
            continue
        over_at = end.finished_at
        if shared:  # an execution outlives the job that led it while it serves others
            last = shared.pop((end.builder, end.slot, end.dispatched_at), end)
            over_at = max(over_at, last.finished_at)
        yield end.builder, end.job, end.dispatched_at, over_at
    for (builder, _, dispatched_at), end in shared.items():
        if builder is not None and dispatched_at is not None:
            yield builder, end.job, dispatched_at, end.finished_at
    if records.void_attempts:
        jobs = {end.job.id: end.job for end in records.ends}
        for void in records.void_attempts:
            yield void.builder, jobs.get(void.job), void.dispatched_at, void.ended_at


def _present(span: BuilderSpan, window: Window, last_at: float) -> float:
    if span.joined_at is None:
        return 0.0
    return window.overlap(span.joined_at, last_at if span.gone_at is None else span.gone_at)


def _most_present(spans: Iterable[BuilderSpan], window: Window) -> int:
    """Return the greatest number of builders there at once; one that leaves makes room first."""
    changes: list[tuple[float, int]] = []
    for span in spans:
        gone_at = float("inf") if span.gone_at is None else span.gone_at
        if span.joined_at is None or span.joined_at >= window.end or gone_at <= window.start:
            continue
        changes.append((max(span.joined_at, window.start), 1))
        changes.append((gone_at, -1))
    present = most = 0
    for _, change in sorted(changes):
        present += change
        most = max(most, present)
    return most
