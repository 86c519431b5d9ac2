"""A ledger for the scheduler: events in, commands out, the whole farm checked after each event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from farm.core.commands import (
    IGNORED,
    CancelJob,
    Command,
    DrainBuilder,
    EndJob,
    LoseBuilder,
    RequestBuilder,
    RequeueJob,
    RetireBuilder,
    SetAlarm,
    StartJob,
)
from farm.core.events import (
    AlarmRang,
    ArrivalsEnded,
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    CancelRequested,
    DrainRequested,
    Event,
    FarmOpened,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    PoolPlanned,
    PriorityChanged,
    SlotCleaned,
    UndrainRequested,
)
from farm.core.model import Builder, Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.queues.plain import PlainQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import JobState, JobStatus
from farm.forecasts.runtime import make_estimator
from farm.results.audit.auditor import Auditor


def brief(order: Command) -> str:
    """Write a command on one short line, such as ``start a/1 on b.0`` or ``end a succeeded``."""
    match order:
        case StartJob():
            return f"start {order.job.id}/{order.attempt} on {order.builder}.{order.slot}"
        case CancelJob():
            return f"stop {order.job}/{order.attempt} on {order.builder}"
        case RequeueJob():
            return f"requeue {order.job}/{order.attempt}"
        case EndJob():
            return f"end {order.job.id} {order.outcome}"
        case RequestBuilder():
            return f"request {order.builder.id}"
        case DrainBuilder():
            return f"drain {order.builder}"
        case RetireBuilder():
            return f"retire {order.builder}"
        case LoseBuilder():
            return f"lose {order.builder}"
        case SetAlarm():
            return f"alarm {order.rings_at:g}"


class Ledger:
    """A scheduler and its events, one by one; each answer is checked and shortened.

    A second passes between two events unless ``at`` is set. Builders are of the pool "p", virtual,
    with the processor amd64, one slot.
    """

    def __init__(
        self,
        *builders: str,
        estimates: str = "oracle",
        pools: Sequence[PoolSpec] = (),
        **rules: Any,
    ) -> None:
        self.rules = SchedulingRules(**rules)
        self.estimates = estimates
        self.scheduler = Scheduler(self.rules, make_estimator(estimates), pools)
        self.auditor = Auditor()
        self.at = 0.0
        #: every event with its commands, for replays
        self.story: list[tuple[Event, list[Command]]] = []
        self.orders: list[Command] = []
        self._made = 0
        for name in builders:
            self.join(name)

    # --- events ------------------------------------------------------------------------------

    def tell(self, event: Event) -> list[str] | str:
        """Handle an event; return its commands, shortened, or "ignored"."""
        self.orders = self.scheduler.handle(event)
        self.auditor(event, self.orders)
        check(self.scheduler)
        self.at = event.at + 1.0
        self.story.append((event, list(self.orders)))
        return "ignored" if self.orders is IGNORED else [brief(order) for order in self.orders]

    def submit(self, *jobs: str | Job, **more: Any) -> list[str] | str:
        """Submit jobs together; a name stands for a job of 10 s that any virtual builder runs."""
        made = [self.job(one, **more) if isinstance(one, str) else one for one in jobs]
        return self.tell(JobsSubmitted(self.at, tuple(made)))

    def job(self, name: str, service_time: float = 10.0, **more: Any) -> Job:
        """Return a job."""
        return Job(id=name, service_time=service_time, **more)

    def join(self, name: str, **more: Any) -> list[str] | str:
        """Let a builder join."""
        self._made += 1
        what = {"pool": "p", "index": self._made, "processors": ("amd64",), **more}
        return self.tell(BuilderJoined(self.at, Builder(id=name, **what)))

    def started(self, name: str, **which: Any) -> list[str] | str:
        """The builder of a job's attempt reports its start."""
        return self.tell(JobStarted(self.at, *self.attempt(name, **which)))

    def finish(
        self, name: str, outcome: Any = "succeeded", reason: str = "", **which: Any
    ) -> list[str] | str:
        """The builder of a job's attempt reports its end."""
        return self.tell(JobFinished(self.at, *self.attempt(name, **which), outcome, reason))

    def attempt_lost(self, name: str, **which: Any) -> list[str] | str:
        """The builder of a job's attempt does not know it."""
        return self.tell(AttemptLost(self.at, *self.attempt(name, **which)))

    def attempt(self, name: str, attempt: int = 0, builder: str = "") -> tuple[str, int, str]:
        """Return (job, attempt, builder), of the current attempt by default."""
        state = self.scheduler.jobs.get(name)
        slot = None if state is None else state.slot
        here = slot.builder.builder.id if slot is not None else "nowhere"
        return name, attempt or (1 if state is None else state.attempts), builder or here

    def cancel(self, *names: str, **more: Any) -> list[str] | str:
        """Request the cancellation of jobs."""
        return self.tell(CancelRequested(self.at, names, **more))

    def prioritise(self, name: str, **change: Any) -> list[str] | str:
        """Give a waiting job another level, score or priority."""
        return self.tell(PriorityChanged(self.at, name, **change))

    def lose(self, name: str, reason: str = "", *, excused: bool = False) -> list[str] | str:
        """Lose a builder without notice."""
        return self.tell(BuilderLost(self.at, name, reason, excused))

    def open(self, **how: Any) -> list[str] | str:
        """The farm opens."""
        return self.tell(FarmOpened(self.at, **how))

    def plan(self, pool: str = "p", **what: Any) -> list[str] | str:
        """A provisioner plans a pool."""
        seen = dict.fromkeys(("desired", "requested", "running", "waiting"), 0)
        return self.tell(PoolPlanned(self.at, pool, **{**seen, **what}))

    def boot(self, name: str) -> list[str] | str:
        """A requested builder comes up."""
        requests = (o for _, orders in self.story for o in orders if isinstance(o, RequestBuilder))
        made = {request.builder.id: request.builder for request in requests}
        return self.tell(BuilderJoined(self.at, made[name]))

    def arrivals_end(self) -> list[str] | str:
        """No more jobs will arrive."""
        return self.tell(ArrivalsEnded(self.at))

    def retired(self, name: str) -> list[str] | str:
        """A builder retires."""
        return self.tell(BuilderRetired(self.at, name))

    def ring(self, at: float | None = None) -> list[str] | str:
        """Ring an alarm (default: now)."""
        self.at = self.at if at is None else at
        return self.tell(AlarmRang(self.at))

    def drain(self, pattern: str, *, retire: bool = False) -> list[str] | str:
        """Drain builders."""
        return self.tell(DrainRequested(self.at, pattern, retire))

    def undrain(self, pattern: str) -> list[str] | str:
        """Let builders accept jobs again."""
        return self.tell(UndrainRequested(self.at, pattern))

    def cleaned(self, name: str, slot: int = 0) -> list[str] | str:
        """A slot has been cleaned."""
        return self.tell(SlotCleaned(self.at, name, slot))

    # --- state ------------------------------------------------------------------------------

    @property
    def running(self) -> dict[str, str]:
        """Return where each running job runs."""
        return {
            name: f"{state.slot.builder.builder.id}.{state.slot.number}"
            for name, state in self.scheduler.jobs.items()
            if state.slot is not None
        }

    @property
    def waiting(self) -> list[str]:
        """Return the waiting jobs, in order, lane by lane."""
        lanes = self.scheduler.dispatcher.matching.lanes
        return [state.job.id for lane in lanes for state in lane.queue.in_order()]

    def dispatch_order(self, builder: str) -> list[str]:
        """Let a new builder work off the queue; return the jobs in its order."""
        self.join(builder)
        order = []
        while mine := [job for job, where in self.running.items() if where == f"{builder}.0"]:
            order.extend(mine)
            self.finish(mine[0])
        return order


def check(scheduler: Scheduler) -> None:
    """Recompute every count by brute force, and compare with the scheduler's."""
    jobs = scheduler.jobs
    builders = list(scheduler.builders.values())
    matching = scheduler.dispatcher.matching
    for lane in matching.lanes:
        waiting = [s for s in jobs.values() if _waits(s) and s.lane is lane]
        assert lane.waiting == len(lane.queue) == len(waiting)
        in_order = list(lane.queue.in_order())
        assert sorted(s.serial for s in in_order) == sorted(s.serial for s in waiting)
        if isinstance(lane.queue, PlainQueue):
            assert in_order == sorted(waiting, key=lambda s: s.key)
            assert lane.queue.first(3) == in_order[:3]
        able = [b for b in builders if b.builder.can_run(lane.platform) and _has_room(b)]
        assert not (waiting and able), "work conservation: a job waits beside a free builder"
        best = min(able, key=lambda b: (scheduler.rules.ranking(b), b.builder.index), default=None)
        assert lane.best_builder() is best
    for builder in builders:
        slots = builder.slots
        assert builder.busy == sum(s.running is not None or s.cleaning for s in slots)
        assert not any(s.running is not None and s.cleaning for s in slots)
        assert (builder.rank is not None) == _has_room(builder)
        assert not (builder.accepts and (builder.draining or builder.retired))
        assert builder.used <= (builder.builder.uses or builder.used)
        assert not builder.used_up or (builder.retiring and builder.busy + builder.retired > 0)
    for state in jobs.values():
        assert state.slot is None or state.slot.running is state
        assert (state.slot is None) == (state.status in (JobStatus.WAITING, JobStatus.ARRIVING))
        for follower in state.followers:
            assert follower.leader is state
            assert jobs[follower.job.id] is follower
        if state.leader is not None:
            assert state in state.leader.followers
            assert jobs[state.leader.job.id] is state.leader
        if state.abandoned:
            assert state.followers or state.status is JobStatus.CANCELLING
    for pool in scheduler.pools.values():
        mine = [b for b in builders if b.pool is pool]
        assert pool.builders == len(mine)
        assert pool.slots == sum(len(b.slots) for b in mine)
        assert pool.busy_slots == sum(b.busy for b in mine)
        assert pool.accepting == sum(b.accepts for b in mine)
        assert pool.idle_builders == sum(b.accepts and not b.busy for b in mine)
        assert pool.stopping == sum(b.retired for b in mine)
        assert not set(pool.requested) & set(scheduler.builders)


def _waits(state: JobState) -> bool:
    return state.status is JobStatus.WAITING and state.leader is None


def _has_room(builder: Any) -> bool:
    return builder.accepts and builder.busy < len(builder.slots)


@pytest.fixture(scope="session")
def ledger() -> type[Ledger]:
    """Make ledgers: ``ledger("b1", "b2", retries=0)`` is a farm of two builders."""
    return Ledger


@pytest.fixture(scope="session")
def platforms() -> dict[str, Platform]:
    """Return the platforms that a job may name, by a short name."""
    return {
        f"{processor or 'any'}-{kind}": Platform(processor, virtualized)
        for processor in (None, "amd64", "arm64")
        for kind, virtualized in (("virtual", True), ("native", False), ("unsaid", None))
    }
