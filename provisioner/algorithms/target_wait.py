"""As few builders as keep the estimated wait of a new job under an objective."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import msgspec

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    EARLY,
    FOREVER,
    Count,
    PositiveSeconds,
    Seconds,
    Sizing,
    builders_for,
)


class Surplus(Memory, frozen=True):
    """Since when there are too many builders, and the most that would have been enough since."""

    since: float | None = None
    peak: int = 0


class TargetWait(Sizing[Surplus], frozen=True, kw_only=True):
    """Size the pool by the dispatch estimate that a job submitted now would get.

    The estimate has the dispatch estimator's form, time to next builder + predecessor lead time,
    as a function of the number of slots c (= builders * slots):

        E(c) = 0                       when a slot is left for the new job: c > running + waiting
        E(c) = TNB(c) + W ÷ c          else, with W the estimated work of all waiting jobs
        TNB(c) = 0 if c > running, else the time until the next slot comes free (unknown: no end)

    E never rises with c. The size needed for an objective T is the smallest number of builders with
    E(c) ≤ T that offers at least the slots now in use; it never falls when work, jobs or running
    jobs are added, nor when T shrinks.

    Hysteresis: the pool grows at once to the size needed for ``objective``. It shrinks only after
    it was, for ``hold`` without interruption, larger than the size needed for ``release`` *
    objective, and then to the largest such size seen in that time; only idle builders are stopped.

    With no waiting or running jobs no builder is needed: ``min`` says how many stay warm. Boot
    time is not part of the estimate, so an objective below it is met only by spare builders.
    """

    remembers = Surplus
    looks_closely: ClassVar[bool] = True

    max: Count
    objective: PositiveSeconds
    release: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    hold: Seconds = 300.0
    interval: Seconds = 15.0

    def plan(self, snapshot: PoolSnapshot, memory: Surplus) -> tuple[ScalingPlan, Surplus]:
        """Grow at once, shrink after a while."""
        needed = builders_needed(snapshot, self.objective)
        enough = builders_needed(snapshot, self.objective * self.release)
        present = snapshot.present
        if present < needed:
            why = f"{needed} builders keep the wait under {self.objective:g}s"
            return self.towards(snapshot, needed, why), Surplus()
        if present <= enough:
            return self.towards(snapshot, present, "as many as needed", stop="idle"), Surplus()
        if memory.peak >= present:
            memory = Surplus()  # all that are left were needed since: the surplus begins now
        since = snapshot.at if memory.since is None else memory.since
        peak = max(enough, memory.peak)
        if snapshot.at - since < self.hold:
            held = self.towards(snapshot, present, f"{enough} would do; holding", stop="idle")
            return held, Surplus(since, peak)
        why = f"{peak} have been enough for {self.hold:g}s"
        return self.towards(snapshot, peak, why, stop="idle"), Surplus(snapshot.at, enough)

    def stays_until(self, snapshot: PoolSnapshot, memory: Surplus) -> float:
        """Return when holding ends; while the next free slot comes nearer, any plan may differ."""
        if snapshot.next_slot_time:
            return snapshot.at
        if memory.since is None:
            return FOREVER
        if memory.peak >= snapshot.present:  # the next plan starts to hold again
            return snapshot.at
        return memory.since + self.hold - EARLY


def builders_needed(snapshot: PoolSnapshot, objective: float) -> int:
    """Return the fewest builders with which a new job waits at most ``objective`` seconds."""
    running, work = snapshot.running_jobs, snapshot.waiting_work
    tnb = math.inf if snapshot.next_slot_time is None else snapshot.next_slot_time
    if snapshot.waiting_jobs == 0 and (running == 0 or tnb <= objective):
        return builders_for(running, snapshot)
    if running and tnb + work / running <= objective:
        return builders_for(running, snapshot)
    one_free, all_free = running + 1, running + snapshot.waiting_jobs + 1
    return builders_for(min(max(one_free, work / objective), all_free), snapshot)
