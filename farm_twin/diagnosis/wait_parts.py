"""What a job waits for, part by part: a free slot, its runner's start, a cap, or something else.

A wait of which nearly all is a runner's start is not made shorter by more runners, and one beside
idle slots has another cause than their number. Time with all slots busy is the queue's. Of the rest
the usual start comes first; what is left over is named by what happened in it: younger jobs
started (this one was held), none did for a while (a stall), or as many ran as ever do (a cap).
"""

from __future__ import annotations

import msgspec
import numpy as np

from farm.columns import Flags, Floats
from farm.core.fields import json_name
from farm_twin.diagnosis.occupancy import MIN_SHARE_OF_FULL, Steps

MIN_STALL = 300.0
"""Seconds without a start, while jobs wait beside free slots, that are a stall."""
MIN_STALLED_JOBS = 5
"""Jobs that wait in a stall, at least."""
MIN_SHARE_AT_CAP = 0.9
"""Share of the waiting beside free slots at the most jobs at once, from which that is a cap."""
MIN_STARTS = 10
"""Jobs that found a free slot, from which the usual start is known."""
MAX_START = 60.0
"""Seconds that the usual start of a job takes, at most, where no runner comes for it."""
CLOCKS = 2.0
"""Seconds by which records may be off without meaning it."""


class WaitParts(msgspec.Struct, frozen=True, rename=json_name):
    """The mean wait of a platform's jobs that started, part by part; seconds."""

    #: while all slots were busy
    queue: float = 0.0
    #: until a runner that was free, or came for the job, had started it
    start: float = 0.0
    #: beside free slots, while as many jobs ran as ever did
    cap: float = 0.0
    #: beside free slots, while younger jobs started
    held: float = 0.0
    #: beside free slots, while no job started
    stall: float = 0.0
    #: beside free slots, for another reason
    other: float = 0.0

    @property
    def beside_free_slots(self) -> float:
        """What passed beside free slots after the usual start."""
        return self.cap + self.held + self.stall + self.other

    @property
    def whole(self) -> float:
        """The mean wait."""
        return self.queue + self.start + self.beside_free_slots


def wait_parts(
    eligible_at: Floats, started_at: Floats, steps: Steps, limit: float, *, comes_for_jobs: bool
) -> WaitParts:
    """Return the parts of the waits of jobs that started.

    Args:
        eligible_at: from when each of them waited.
        started_at: when it started.
        steps: jobs waiting, and slots and busy ones, over time.
        limit: slots that ever were busy at once, or are said to be there.
        comes_for_jobs: a runner starts for each job, or for some.
    """
    waits = started_at - eligible_at
    if not len(waits) or not len(steps.at) or not waits.sum():
        return WaitParts()
    is_full = (steps.busy >= steps.slots) | (steps.busy >= limit)
    if not comes_for_jobs:
        is_full = (steps.busy >= steps.slots) & (steps.slots > 0)
    queued = np.minimum(waits, _passed(steps, is_full, eligible_at, started_at))
    beside = waits - queued
    if comes_for_jobs:
        return WaitParts(queue=float(queued.mean()), start=float(beside.mean()))
    finds_slot = queued <= CLOCKS
    usual = 0.0
    if finds_slot.sum() >= MIN_STARTS:
        usual = float(np.median(waits[finds_slot]))
        if usual > MAX_START:
            # most of these waited for something else, too
            usual = min(MAX_START, float(np.quantile(waits[finds_slot], 0.05)))
    start = np.minimum(beside, usual)
    rest = beside - start

    is_stalled = ~is_full & _is_stalled(steps, np.unique(started_at))
    stalled = np.minimum(rest, _passed(steps, is_stalled, eligible_at, started_at))
    rest = rest - stalled
    held = np.where(is_overtaken(eligible_at, started_at), rest, 0.0)
    rest = rest - held
    weight = np.where(is_full, 0.0, steps.waiting * steps.lasts)
    at_cap = float(weight[steps.busy >= max(1.0, MIN_SHARE_OF_FULL * limit)].sum())
    is_capped = at_cap >= MIN_SHARE_AT_CAP * weight.sum() > 0.0
    # jobs that a cap holds start by arrival
    is_capped &= bool(2.0 * held.sum() < held.sum() + rest.sum())
    return WaitParts(
        queue=float(queued.mean()),
        start=float(start.mean()),
        cap=float((rest + held).mean()) if is_capped else 0.0,
        held=0.0 if is_capped else float(held.mean()),
        stall=float(stalled.mean()),
        other=0.0 if is_capped else float(rest.mean()),
    )


def _passed(steps: Steps, chosen: Flags, begins: Floats, ends: Floats) -> Floats:
    """Return how much of the chosen time lies between these instants."""
    at = np.append(steps.at, steps.at[-1] + steps.lasts[-1])
    passed = np.append(0.0, np.cumsum(np.where(chosen, steps.lasts, 0.0)))
    between: Floats = np.interp(ends, at, passed) - np.interp(begins, at, passed)
    return between


def _is_stalled(steps: Steps, starts: Floats) -> Flags:
    """Return when no job had started for long, nor did soon, although jobs waited."""
    place = np.searchsorted(starts, steps.at, side="right")
    edges = np.concatenate([[-np.inf], starts, [np.inf]])
    gap = edges[place + 1] - edges[place]
    is_long = np.isfinite(gap) & (gap >= MIN_STALL)
    stalled: Flags = is_long & (steps.waiting >= MIN_STALLED_JOBS)
    return stalled


def is_overtaken(eligible_at: Floats, started_at: Floats) -> Flags:
    """Return which jobs started later than one that came after them."""
    order = np.argsort(eligible_at, kind="stable")
    started = started_at[order]
    first_later = np.minimum.accumulate(np.append(started, np.inf)[::-1])[::-1][1:]
    overtaken = np.zeros(len(order), np.bool_)
    overtaken[order] = first_later < started - CLOCKS
    return overtaken
