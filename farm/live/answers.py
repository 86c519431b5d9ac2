"""Answers to what only the scheduler's process knows: why a job waits, why it went where it did."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from farm.core.dispatch_estimator.in_steps import QueueSweep
from farm.core.explain import Decision
from farm.core.pool_spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.state import JobState
from farm.live.messages import Ask


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A live job as its scheduler sees it; times are farm seconds."""

    status: str
    attempts: int
    submitted_at: float
    estimated_time: float
    #: jobs before it in dispatch order on its platform; None: it does not wait
    ahead: int | None = None
    #: builders that may run it: all there are, those that take jobs, those with a free slot
    builders: int = 0
    accepting: int = 0
    free: int = 0
    #: requested builders of pools whose builders may run it
    booting: int = 0
    #: seconds until it is dispatched, as estimated; None: no builder could run it
    dispatch_in_time: float | None = None
    #: whose execution serves it too
    leader: str | None = None
    path: tuple[str, ...] = ()
    why: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler knows of a job now; both None: nothing (any more)."""

    at: float
    job: Waiting | None = None
    decision: Decision | None = None


def answer(question: Ask, scheduler: Scheduler, pools: Mapping[str, PoolSpec], at: float) -> Answer:
    """Return what the scheduler knows; O(waiting jobs of the platform) for a waiting job."""
    state = scheduler.jobs.get(question.job) if question.about == "job" else None
    return Answer(
        at=at,
        job=None if state is None else _waiting(state, scheduler, pools, at),
        decision=scheduler.dispatcher.decisions.get(question.job),
    )


def _waiting(
    state: JobState, scheduler: Scheduler, pools: Mapping[str, PoolSpec], at: float
) -> Waiting:
    able = [b for b in scheduler.builders.values() if b.builder.can_run(state.job.platform)]
    ahead = None
    executing = state.leader or state
    if executing.slot is None:
        order = enumerate(state.lane.queue.in_order())
        ahead = next((place for place, other in order if other is executing), None)
    named = [n for n, p in pools.items() if p.builder(1, 0).can_run(state.job.platform)]
    facts = Waiting(
        status=state.status.value,
        attempts=state.attempts,
        submitted_at=state.submitted_at,
        estimated_time=state.estimated_time,
        ahead=ahead,
        builders=len(able),
        accepting=sum(b.accepts for b in able),
        free=sum(b.accepts and b.busy < len(b.slots) for b in able),
        booting=sum(len(scheduler.pool(name).requested) for name in named),
        dispatch_in_time=None if ahead is None else _estimate(executing, scheduler, at),
        leader=None if state.leader is None else state.leader.job.id,
        path=state.path,
    )
    return msgspec.structs.replace(facts, why=_why(facts, has_pool=bool(named)))


def _estimate(state: JobState, scheduler: Scheduler, at: float) -> float | None:
    """Estimate when the job is dispatched: O(n log n) in all waiting jobs."""
    lanes = scheduler.dispatcher.matching.lanes
    sweep = QueueSweep(lanes, scheduler.builders.values(), at)
    sweep.finish()
    return sweep.estimate_of(state)


def _why(job: Waiting, *, has_pool: bool) -> str:
    """Say in one sentence why a job waits; empty if it does not."""
    if job.leader is not None:
        return f"{job.leader}, which does the same action, is executed for both"
    if job.ahead is None:
        return ""
    if not job.builders:
        if not has_pool:
            return "no pool of the farm has builders that could run it"
        return f"no builder that could run it is there, and {job.booting or 'none'} of them boot"
    if not job.accepting:
        return f"all {job.builders} builders that could run it are drained, failed or leaving"
    first = "it is the next" if not job.ahead else f"{job.ahead:,} jobs are ahead"
    if not job.free:
        return f"all {job.accepting} builders that could run it are busy, {first}"
    if not job.ahead:
        return f"{first}; {job.free} builders have room, but it is kept for one that suits better"
    return first
