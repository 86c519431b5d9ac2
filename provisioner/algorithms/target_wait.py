"""As few builders as keep the estimated wait of a new job under an objective."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from farm.core.pools.algorithm import Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.sizing import (
    EARLY,
    FOREVER,
    NEVER,
    Count,
    PositiveSeconds,
    Seconds,
    Sizing,
    builders_for,
    plan_for_size,
)


class Surplus(Memory, frozen=True):
    """Since when there are too many builders, and the most that would have been enough since."""

    since: float = NEVER
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
    formula = "target-wait"

    max: Count
    objective: PositiveSeconds
    release: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    hold: Seconds = 300.0
    interval: Seconds = 15.0

    def plan(self, snapshot: PoolSnapshot, memory: Surplus) -> tuple[ScalingPlan, Surplus]:
        """Grow at once, shrink after a while."""
        soonest = _next_slot_time(snapshot)
        desired, start, stop, since, peak = plan_in_numbers(
            snapshot, self, soonest, memory.since, memory.peak
        )
        needed = builders_needed(snapshot, soonest, self.objective)
        why = f"{needed} builders keep the wait under {self.objective:g}s"
        if since >= 0.0:
            why += f", {peak} would do"
        return ScalingPlan(desired, start, stop, why), Surplus(since, peak)

    def stays_until(self, snapshot: PoolSnapshot, memory: Surplus) -> float:
        """Return when holding ends; while the next free slot comes nearer, any plan may differ."""
        soonest = _next_slot_time(snapshot)
        return next_change_at(snapshot, self, soonest, memory.since, memory.peak)


def _next_slot_time(snapshot: PoolSnapshot) -> float:
    """Return when a slot is free (s from now): never, if no running job could free one.

    A job without a history has an estimate too, and one that has outrun its estimate is expected to
    end now.
    """
    return FOREVER if snapshot.next_slot_time is None else snapshot.next_slot_time


def builders_needed(snapshot: PoolSnapshot, next_slot_time: float, objective: float) -> int:
    """Return the fewest builders with which a new job waits at most ``objective`` seconds."""
    running, work = snapshot.running_jobs, snapshot.waiting_work
    if snapshot.waiting_jobs == 0 and (running == 0 or next_slot_time <= objective):
        return builders_for(running, snapshot)
    if running and next_slot_time + work / running <= objective:
        return builders_for(running, snapshot)
    one_free = running + 1
    all_free = running + snapshot.waiting_jobs + 1
    return builders_for(min(max(one_free * 1.0, work / objective), all_free * 1.0), snapshot)


def plan_in_numbers(
    snapshot: PoolSnapshot, options: TargetWait, next_slot_time: float, since: float, peak: int
) -> tuple[int, int, int, float, int]:
    """Return builders desired, to be started and to be stopped, and the next ``Surplus``."""
    needed = builders_needed(snapshot, next_slot_time, options.objective)
    enough = builders_needed(snapshot, next_slot_time, options.objective * options.release)
    present = snapshot.present
    if present < needed or present <= enough:
        stoppable = snapshot.joined if present < needed else snapshot.idle
        desired, start, stop = plan_for_size(snapshot, options, max(present, needed), stoppable)
        return desired, start, stop, NEVER, 0
    if peak >= present or since < 0.0:
        peak = 0 if peak >= present else peak  # all that are left were needed since
        since = snapshot.at
    peak, wanted = max(enough, peak), present
    if snapshot.at - since >= options.hold:
        wanted, since, peak = peak, snapshot.at, enough
    desired, start, stop = plan_for_size(snapshot, options, wanted, snapshot.idle)
    return desired, start, stop, since, peak


def next_change_at(
    snapshot: PoolSnapshot, options: TargetWait, next_slot_time: float, since: float, peak: int
) -> float:
    """Return when holding ends; while the next free slot comes nearer, any plan may differ."""
    if 0.0 < next_slot_time < FOREVER:
        return snapshot.at
    if since < 0.0:
        return FOREVER
    if peak >= snapshot.present:  # the next plan starts to hold again
        return snapshot.at
    return since + options.hold - EARLY
