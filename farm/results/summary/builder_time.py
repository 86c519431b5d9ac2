"""How builders spent their time, within a window of the run."""

from __future__ import annotations

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.results.table.builders import Builders
from farm.results.table.columns import Flags, Floats, total
from farm.results.table.records import RunRecords


class Window(msgspec.Struct, frozen=True):
    """The part of a run that counts: start ≤ t < end, seconds of farm time."""

    start: float = float("-inf")
    end: float = float("inf")

    def holds(self, at: Floats) -> Flags:
        """Return which instants are in the window (NaN is not)."""
        return (self.start <= at) & (at < self.end)

    def overlap(self, start: Floats, end: Floats) -> Floats:
        """Return how much of each span is in the window, seconds."""
        inside: Floats = np.minimum(end, self.end) - np.maximum(start, self.start)
        return np.maximum(inside, 0.0, out=inside)


class BuilderCounts(msgspec.Struct, frozen=True, rename=json_name):
    """Counts of builders in the window, and the maximum number present.

    A builder is over-provisioned if it joined in the window and never ran a job.
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

    #: builders present (joined and not left)
    present: float
    #: slots present: the same, each builder times its slots
    slots: float
    #: slots that held a job, from its dispatch to its end
    busy: float


def builder_counts(records: RunRecords, window: Window) -> BuilderCounts:
    """Count what happened to builders in the window."""
    builders = records.builders
    ran = np.zeros(len(records.pool_of), np.bool_)
    ran[records.attempts.builder.numbers] = True
    idle = window.holds(builders.joined_at) & ~ran[builders.builder.numbers]
    gone = window.holds(builders.gone_at)
    return BuilderCounts(
        requested=_count(window.holds(builders.requested_at)),
        joined=_count(window.holds(builders.joined_at)),
        retired=_count(builders.end.where("retired") & gone),
        lost=_count(builders.end.where("lost") & gone),
        max_running=_most_present(builders, window),
        over_provisioned=_count(idle),
        over_provisioned_time=total(present(builders.taken(idle), window, records.last_at)),
    )


def builder_times(records: RunRecords, window: Window) -> BuilderTimes:
    """Sum up the builders' time in the window."""
    there, held = present(records.builders, window, records.last_at), records.attempts
    return BuilderTimes(
        present=total(there),
        slots=total(there * records.builders.slots),
        busy=total(window.overlap(held.dispatched_at, held.ended_at)),
    )


def present(builders: Builders, window: Window, last_at: float) -> Floats:
    """Return how long each builder was present, seconds."""
    gone_at = np.where(np.isnan(builders.gone_at), last_at, builders.gone_at)
    there = window.overlap(builders.joined_at, gone_at)
    return np.where(np.isnan(builders.joined_at), 0.0, there)


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


def _most_present(builders: Builders, window: Window) -> int:
    """Return the maximum number of builders present; leaving precedes joining at an instant."""
    gone_at = np.where(np.isnan(builders.gone_at), np.inf, builders.gone_at)
    some = (builders.joined_at < window.end) & (gone_at > window.start)
    joined_at, gone_at = np.maximum(builders.joined_at[some], window.start), gone_at[some]
    at = np.concatenate((gone_at, joined_at))
    change = np.repeat((-1, 1), len(joined_at))
    there = np.cumsum(change[np.argsort(at, kind="stable")])
    return int(there.max(initial=0))
