"""How builders spent their time, within a window of the run."""

from __future__ import annotations

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.results.summary.columns import Columns
from farm.results.summary.descriptive_statistics import Floats
from farm.results.summary.job_columns import Flags, total
from farm.results.summary.spans import LOST, RETIRED, Spans


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


def builder_counts(columns: Columns, window: Window) -> BuilderCounts:
    """Count what happened to builders in the window."""
    spans = columns.spans
    idle = window.holds(spans.joined_at) & ~np.isin(spans.builder, columns.attempts.builder)
    gone = window.holds(spans.gone_at)
    return BuilderCounts(
        requested=_count(window.holds(spans.requested_at)),
        joined=_count(window.holds(spans.joined_at)),
        retired=_count((spans.end == RETIRED) & gone),
        lost=_count((spans.end == LOST) & gone),
        max_running=_most_present(spans, window),
        over_provisioned=_count(idle),
        over_provisioned_time=total(present(spans.taken(idle), window, columns.last_at)),
    )


def builder_times(columns: Columns, window: Window) -> BuilderTimes:
    """Sum up the builders' time in the window."""
    there, held = present(columns.spans, window, columns.last_at), columns.attempts
    return BuilderTimes(
        present=total(there),
        slots=total(there * columns.spans.slots),
        busy=total(window.overlap(held.dispatched_at, held.ended_at)),
    )


def present(spans: Spans, window: Window, last_at: float) -> Floats:
    """Return how long each builder was present, seconds."""
    gone_at = np.where(np.isnan(spans.gone_at), last_at, spans.gone_at)
    there = window.overlap(spans.joined_at, gone_at)
    return np.where(np.isnan(spans.joined_at), 0.0, there)


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


def _most_present(spans: Spans, window: Window) -> int:
    """Return the maximum number of builders present; leaving precedes joining at an instant."""
    gone_at = np.where(np.isnan(spans.gone_at), np.inf, spans.gone_at)
    some = (spans.joined_at < window.end) & (gone_at > window.start)
    joined_at, gone_at = np.maximum(spans.joined_at[some], window.start), gone_at[some]
    at = np.concatenate((gone_at, joined_at))
    change = np.repeat((-1, 1), len(joined_at))
    there = np.cumsum(change[np.argsort(at, kind="stable")])
    return int(there.max(initial=0))
