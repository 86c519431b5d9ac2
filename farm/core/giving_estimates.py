"""Gives every submitted job its dispatch estimate, as a fact of the run.

``EstimatingWorld`` stands before any world, simulated or live: after a submission was handled it
puts in one ``EstimateMade`` fact for each job and each giver, stamped with the submission's time.
The scheduler only records them, so they change nothing in the run.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from farm.core.commands import Command
from farm.core.dispatch_estimator.capacity import Capacity
from farm.core.dispatch_estimator.rules import Rules
from farm.core.dispatch_estimator.sweep import QueueEstimates, WaitingColumns
from farm.core.dispatch_estimator.view import JobView
from farm.core.dispatch_estimator.working_state import builder_view, job_view
from farm.core.events import EstimateMade, Event, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.runtime_estimators import Learner, RuntimeEstimator
from farm.core.scheduler import Scheduler
from farm.core.state import JobState


class Given(msgspec.Struct, frozen=True):
    """An estimate as instants of farm time; see ``EstimateMade``."""

    dispatch_at: float | None
    mean_at: float | None = None
    quantiles_at: tuple[float, ...] = ()


class Giver(Protocol):
    """Somebody who estimates dispatch times."""

    rules: str
    run_times: str

    def give(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> list[Given]:
        """Return an estimate for each of these waiting jobs, in order."""


class World(Protocol):
    """What happens outside the scheduler (``farm.driver.World``)."""

    def next_event(self) -> Event | None:
        """Return the next fact; None when the run is over."""

    def execute(self, command: Command) -> None:
        """Carry out one order."""


class EstimatingWorld:
    """A world whose submissions are followed by the estimates that the givers make of them.

    Every ``every``-th submitted job is given estimates (1: all). ``learners`` take all facts in:
    they teach the runtime estimators of the givers that do not use the scheduler's own.
    """

    def __init__(
        self,
        world: World,
        scheduler: Scheduler,
        givers: Sequence[Giver],
        *,
        every: int = 1,
        learners: Sequence[Learner] = (),
    ) -> None:
        self.execute = world.execute
        self._next = world.next_event
        self._scheduler = scheduler
        self._givers = givers
        self._every = every
        self._learners = learners
        self._submitted: JobsSubmitted | None = None
        self._count = 0
        self._facts: deque[EstimateMade] = deque()

    def next_event(self) -> Event | None:
        """Return the next fact: an estimate that is due, else what the world says."""
        if self._submitted is not None:
            self._estimate(self._submitted)
            self._submitted = None
        if self._facts:
            return self._facts.popleft()
        event = self._next()
        if event is None:
            return None
        for learner in self._learners:
            learner.take(event)
        if type(event) is JobsSubmitted:
            self._submitted = event
        return event

    def _estimate(self, event: JobsSubmitted) -> None:
        chosen = []
        for job in event.jobs:
            self._count += 1
            if (self._count - 1) % self._every == 0:
                state = self._scheduler.jobs.get(job.id)
                if state is not None and state.job is job:
                    chosen.append(state)
        if not chosen:
            return
        at = event.at
        waiting = [state for state in chosen if _executing(state).slot is None]
        depth = sum(lane.waiting for lane in self._scheduler.dispatcher.matching.lanes)
        for giver in self._givers:
            given = iter(giver.give(self._scheduler, waiting, at)) if waiting else iter(())
            for state in chosen:
                # one that was dispatched at once has its answer
                waits = _executing(state).slot is None
                found = next(given) if waits else Given(at)
                self._facts.append(
                    EstimateMade(
                        at,
                        state.job.id,
                        giver.rules,
                        found.dispatch_at,
                        giver.run_times,
                        depth if waits else 0,
                        found.mean_at,
                        found.quantiles_at,
                    )
                )


def _executing(state: JobState) -> JobState:
    return state.leader or state


class FormulaGiver:
    """Launchpad's formula under one rule set.

    The queue is swept anew for each submission while it is short (``swept_at_most`` jobs) and at
    most every ``refresh`` seconds of farm time when it is long; in between a job's estimate is
    that of a new job behind all that waited at the last sweep, which costs a few microseconds (and
    is too late for a job that the policy puts further ahead).
    ``estimator``: whose run times; None: what the scheduler ordered by.
    """

    def __init__(
        self,
        rules: Rules,
        run_times: str,
        estimator: RuntimeEstimator | None = None,
        *,
        refresh: float = 5.0,
        swept_at_most: int = 1000,
    ) -> None:
        self.rules = rules.name
        self.run_times = run_times
        self._rules = rules
        self._estimator = estimator
        self._refresh = refresh
        self._swept_at_most = swept_at_most
        self._swept_at = -float("inf")
        self._sweep: QueueEstimates | None = None
        self._places: dict[int, int] = {}

    def give(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> list[Given]:
        """Return an estimate for each of these waiting jobs, in order."""
        depth = sum(lane.waiting for lane in scheduler.dispatcher.matching.lanes)
        if self._sweep is None or depth <= self._swept_at_most or at >= self._next_sweep_at:
            self._sweep_queue(scheduler, at)
        return [Given(self._instant(_executing(state), at)) for state in jobs]

    @property
    def _next_sweep_at(self) -> float:
        return self._swept_at + self._refresh

    def _sweep_queue(self, scheduler: Scheduler, at: float) -> None:
        states = waiting_in_order(scheduler)
        self._swept_at = at
        self._sweep = sweep_of(scheduler, states, at, self._rules, self._estimator)
        self._places = {state.serial: place for place, state in enumerate(states)}

    def _instant(self, state: JobState, at: float) -> float | None:
        if self._sweep is None:
            raise RuntimeError("estimates are asked for after a sweep")
        place = self._places.get(state.serial)
        if place is not None:
            seconds: float | None = float(self._sweep.estimate_s[place])
        else:
            seconds = self._sweep.new_job(state.job.platform)
        return None if seconds is None or seconds != seconds else at + seconds


def waiting_in_order(scheduler: Scheduler) -> list[JobState]:
    """Return all waiting jobs as they would be dispatched: always the best head of all queues."""
    queues = [lane.queue.in_order() for lane in scheduler.dispatcher.matching.lanes if lane.waiting]
    if len(queues) == 1:
        return list(queues[0])
    return list(heapq.merge(*queues, key=lambda state: state.key))


def sweep_of(
    scheduler: Scheduler,
    waiting: Sequence[JobState],
    at: float,
    rules: Rules,
    estimator: RuntimeEstimator | None = None,
) -> QueueEstimates:
    """Estimate the dispatch of every waiting job in one pass.

    Run times are kind-level for waiting jobs and builder-level for those on a builder; without an
    ``estimator`` the waiting ones count with what the scheduler ordered by.
    """
    expected = scheduler.estimator.estimate if estimator is None else estimator.estimate
    builders = list(scheduler.builders.values())
    held = [
        _with_duration(job_view(slot.running, at), expected, slot.running.job, state.builder)
        for state in builders
        for slot in state.slots
        if slot.running is not None
    ]
    seen: dict[Platform, int] = {}
    columns = WaitingColumns(
        platforms=(),
        codes=np.array(
            [seen.setdefault(state.job.platform, len(seen)) for state in waiting], dtype=np.int32
        ),
        durations=np.array(
            [state.estimated_time for state in waiting]
            if estimator is None
            else [estimator.estimate(state.job) for state in waiting],
            dtype=np.float64,
        ),
    )
    columns = msgspec.structs.replace(columns, platforms=tuple(seen))
    capacity = Capacity([builder_view(state) for state in builders], held, rules)
    return QueueEstimates(columns, capacity, rules)


def _with_duration(
    view: JobView, expected: Callable[[Job, Builder], float], job: Job, builder: Builder
) -> JobView:
    return msgspec.structs.replace(view, duration_s=expected(job, builder))
