"""How many jobs waited, how many slots there were and how many of them were busy, over time.

And what no queue of slots can be: more runs than there is, or jobs take unlike numbers of slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle
from farm.results.table.columns import Floats

FULL = 0.9
"""Share of the most jobs that ever ran at once, from which a limit on them was reached: between
two jobs a place is empty for a moment."""
OFTEN = 0.01
"""Share of the time with more than the capacity told, from which that is no clock's mistake."""
UNLIKE = 0.05
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
        some = self.at < at
        cut = Steps(*(getattr(self, name)[some] for name in self.__struct_fields__))
        return msgspec.structs.replace(cut, lasts=np.minimum(cut.lasts, at - cut.at))

    def means(self, of: Floats, edges: Floats) -> Floats:
        """Return the means of a count between instants."""
        instants = np.append(self.at, self.at[-1] + self.lasts[-1])
        sums = np.append(0.0, np.cumsum(of * self.lasts))
        means: Floats = np.diff(np.interp(edges, instants, sums)) / np.diff(edges)
        return means

    @property
    def begun(self) -> NDArray[np.bool_]:
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
        some = self.waiting > 0
        return _share((self.busy * self.lasts)[some], (self.slots * self.lasts)[some])

    @property
    def idle_while_waiting(self) -> float | None:
        """The share of slots that were free, weighted by the jobs that waited; None: none did."""
        some = self.slots > 0
        waited = (self.waiting * self.lasts)[some]
        free = np.maximum(0.0, 1.0 - self.busy[some] / self.slots[some])
        return _share(waited * free, waited)

    def full_while_waiting(self, most: int) -> float | None:
        """Return the share of the waiting while about as many were busy; None: none waited."""
        waited = self.waiting * self.lasts
        full = self.busy >= max(1.0, FULL * most)
        return _share(waited[full], waited)


def _share(some: Floats, of: Floats) -> float | None:
    whole = float(of.sum())
    return min(1.0, float(some.sum()) / whole) if whole > 0 else None


Spans = tuple[Floats, Floats]
"""The beginnings and ends of spans, seconds."""


def counts_at(at: Floats, begins: Floats, ends: Floats, weight: Floats | float = 1.0) -> Floats:
    """Return how many spans, by weight, have begun and not ended; ``at`` holds their instants."""
    change = np.zeros(len(at))
    np.add.at(change, np.searchsorted(at, begins), weight)
    np.add.at(change, np.searchsorted(at, ends), -weight)
    return np.cumsum(change)


def steps_of(
    waits: Spans, busy: Spans, slots: tuple[Spans, Floats], begins: float, ends: float
) -> Steps:
    """Return the counts within a window; ``slots`` are the spans of runners, and their slots."""
    (alive, sizes) = slots
    columns = [(waits, np.ones(len(waits[0]))), (busy, np.ones(len(busy[0]))), (alive, sizes)]
    times = [np.clip(part, begins, ends) for spans, _ in columns for part in spans]
    at = np.unique(np.concatenate([*times, [begins, ends]]))
    waiting, working, there = (
        counts_at(at, np.clip(first, begins, ends), np.clip(last, begins, ends), weight)[:-1]
        for (first, last), weight in columns
    )
    return Steps(at[:-1], np.diff(at), waiting, working, there)


def refuse_more_than_slots(bundle: Bundle) -> None:
    """Raise TraceError if more ran, too often, than the slots that the farm is said to have."""
    declared = bundle.manifest.capacity
    ran = [one for one in bundle.attempts if one.ran]
    if declared is None or not ran:
        return
    # the instants are no more exact than that: it may not have run at once with the next
    until = bundle.manifest.resolution_time
    spans = np.array([(one.started_at, one.finished_at) for one in ran], np.float64)
    begins, ends = spans[:, 0], np.maximum(spans[:, 0], spans[:, 1] - until)
    taken = np.array([one.slots for one in ran], np.float64)
    nothing = np.empty(0)
    steps = steps_of(
        (nothing, nothing), (begins, ends), ((begins, ends), taken), begins.min(), ends.max()
    )
    share = float(steps.lasts[steps.slots > declared * (1 + 1e-9)].sum() / steps.lasts.sum())
    if share >= OFTEN:
        raise TraceError(
            f"not believable: {share:.0%} of the time more is running than the capacity told: up "
            f"to {steps.slots.max():g} slots of {declared:g}"
        )


def unlike_slots(attempts: Sequence[Attempt]) -> str:
    """Return how many jobs take another number of slots than most; nothing, if they are few."""
    counts = Counter(one.slots for one in attempts)
    [(_, most)] = counts.most_common(1)
    share = 1 - most / len(attempts)
    if share < UNLIKE:
        return ""
    return (
        f"{share:.0%} of the jobs took another number of slots than the others, from "
        f"{min(counts):g} to {max(counts):g}: where they fit in (placement) decides over waits, "
        "not the number of slots"
    )
