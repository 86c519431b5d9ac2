"""How many jobs waited, how many slots there were and how many of them were busy, over time.

And what no queue of slots can be: more runs than there is, or jobs take unlike numbers of slots.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.core.errors import TraceError
from farm.records.attempt import times_of
from farm.records.bundle import Bundle

MIN_SHARE_OF_FULL = 0.9
"""Share of the most jobs that ever ran at once, from which a limit on them was reached: between
two jobs a place is empty for a moment."""
MIN_TIME_ABOVE_LIMIT = 0.01
"""Share of the time with more than the slots told, from which that is no clock's mistake."""
MIN_SHARE_UNLIKE = 0.05
"""Share of jobs that take another number of slots than most, from which placement decides."""


class Steps(msgspec.Struct, frozen=True):
    """Counts that are constant between instants: from ``at[n]`` for ``lasts[n]`` seconds."""

    at: Floats
    lasts: Floats
    waiting: Floats
    busy: Floats
    slots: Floats

    def before(self, at: float) -> Steps:
        """Return the counts up to an instant."""
        has_begun = self.at < at
        cut = Steps(*(getattr(self, name)[has_begun] for name in self.__struct_fields__))
        return msgspec.structs.replace(cut, lasts=np.minimum(cut.lasts, at - cut.at))

    def means(self, count: Floats, edges: Floats) -> Floats:
        """Return the means of a count between instants."""
        instants = np.append(self.at, self.at[-1] + self.lasts[-1])
        sums = np.append(0.0, np.cumsum(count * self.lasts))
        means: Floats = np.diff(np.interp(edges, instants, sums)) / np.diff(edges)
        return means

    @property
    def has_begun(self) -> NDArray[np.bool_]:
        """Whether any job had started."""
        return np.cumsum(self.busy) > 0

    @property
    def mean_slots(self) -> float:
        """The mean number of slots over time."""
        whole = float(self.lasts.sum())
        return float((self.slots * self.lasts).sum()) / whole if whole else 0.0

    @property
    def utilization(self) -> float | None:
        """The share of slot time that was busy; None: there was none."""
        return _share(self.busy * self.lasts, self.slots * self.lasts)

    @property
    def utilization_while_waiting(self) -> float | None:
        """The same of the time in which jobs waited; None: none did."""
        jobs_wait = self.waiting > 0
        return _share((self.busy * self.lasts)[jobs_wait], (self.slots * self.lasts)[jobs_wait])

    @property
    def idle_while_waiting(self) -> float | None:
        """The share of slots that were free, weighted by the jobs that waited; None: none did."""
        has_slots = self.slots > 0
        waited = (self.waiting * self.lasts)[has_slots]
        free = np.maximum(0.0, 1.0 - self.busy[has_slots] / self.slots[has_slots])
        return _share(waited * free, waited)

    def full_while_waiting(self, most: float) -> float | None:
        """Return the share of the waiting while about as many were busy; None: none waited."""
        waited = self.waiting * self.lasts
        is_full = self.busy >= max(1.0, MIN_SHARE_OF_FULL * most)
        return _share(waited[is_full], waited)


def _share(part: Floats, whole: Floats) -> float | None:
    total = float(whole.sum())
    if total <= 0:
        return None
    return min(1.0, float(part.sum()) / total)


class Spans(NamedTuple):
    """Spans of time, and how much each counts while it lasts."""

    begins: Floats
    ends: Floats
    weights: Floats | float = 1.0


NO_SPANS = Spans(np.empty(0), np.empty(0))


def counts_at(at: Floats, begins: Floats, ends: Floats, weight: Floats | float = 1.0) -> Floats:
    """Return how many spans, by weight, have begun and not ended; ``at`` holds their instants."""
    return _counts(np.searchsorted(at, begins), np.searchsorted(at, ends), weight, len(at))


def _counts(
    begins: NDArray[np.int64], ends: NDArray[np.int64], weight: Floats | float, count: int
) -> Floats:
    """Return the same of spans whose instants are known by their places."""
    change = np.zeros(count)
    np.add.at(change, begins, weight)
    np.add.at(change, ends, -weight)
    return np.cumsum(change)


def most_in_use(spans: Spans, rows: slice) -> float:
    """Return the largest sum of the weights of some of these spans that lasted at once."""
    begins, ends = spans.begins[rows], spans.ends[rows]
    weights = spans.weights[rows] if isinstance(spans.weights, np.ndarray) else spans.weights
    at = np.unique([begins, ends])
    return float(counts_at(at, begins, ends, weights).max(initial=0.0))


def steps_of(waits: Spans, busy: Spans, runners: Spans, begins: float, ends: float) -> Steps:
    """Return the counts within a window; a runner counts with its slots."""
    spans = (waits, busy, runners)
    edges = [edge for span in spans for edge in (span.begins, span.ends)]
    instants = np.concatenate([np.array([begins, ends]), *edges])
    at, places = np.unique(np.clip(instants, begins, ends), return_inverse=True)

    first_places = np.cumsum([2, *map(len, edges)])[:-1]
    _, *places_of_edges = np.split(places, first_places)
    waiting, working, slots = (
        _counts(places_of_edges[2 * n], places_of_edges[2 * n + 1], span.weights, len(at))[:-1]
        for n, span in enumerate(spans)
    )
    return Steps(at[:-1], np.diff(at), waiting, working, slots)


def refuse_more_than_slots(bundle: Bundle) -> None:
    """Raise TraceError if more ran, too often, than the slots that the farm is said to have."""
    declared = bundle.manifest.capacity
    if declared is None:
        return
    ran = [attempt for attempt in bundle.attempts if attempt.ran]
    if not ran:
        return
    started_at = times_of(ran, "started_at")
    # the instants are no more exact than that: it may not have run at once with the next
    exact_to = bundle.manifest.resolution_time
    ended_at = np.maximum(started_at, times_of(ran, "finished_at") - exact_to)
    running = Spans(started_at, ended_at, times_of(ran, "slots"))
    steps = steps_of(NO_SPANS, NO_SPANS, running, float(started_at.min()), float(ended_at.max()))
    is_above = steps.slots > declared * (1 + 1e-9)
    share = float(steps.lasts[is_above].sum() / steps.lasts.sum())
    if share >= MIN_TIME_ABOVE_LIMIT:
        raise TraceError(
            f"not believable: {share:.0%} of the time more is running than the capacity told: up "
            f"to {steps.slots.max():g} slots of {declared:g}"
        )


def unlike_slots(slots: Floats) -> str:
    """Return how many jobs take another number of slots than most; nothing, if they are few."""
    numbers, jobs = np.unique(slots, return_counts=True)
    share = 1 - int(jobs.max()) / len(slots)
    if share < MIN_SHARE_UNLIKE:
        return ""
    return (
        f"{share:.0%} of the jobs took another number of slots than the others, from "
        f"{numbers[0]:g} to {numbers[-1]:g}: where they fit in (placement) decides over waits, "
        "not the number of slots"
    )
