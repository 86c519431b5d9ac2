"""Gives every submitted job its dispatch estimate, as an event of the run.

``EstimatingWorld`` stands before any world, simulated or live: after a submission was handled it
puts in one ``EstimateMade`` event for each job and each giver. The scheduler only records them, so
they change nothing in the run.

A simulated farm stands still for them: its estimates follow their submission at once. A live one
does not wait: what takes long is done in small steps between its events, of the farm as it was at
the first step, and the estimates come when they are ready, saying when they were asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from farm.core.driver import World
from farm.core.events import EstimateMade, Event, JobsSubmitted
from farm.core.scheduler import Scheduler
from farm.core.state import JobState
from farm.forecasts.runtime import Learner

AddEvent = Callable[[Callable[[float], Event]], None]
"""Puts an event into a world, made at the farm time at which it is put in."""


#: estimates given in one step: less than a millisecond
ANSWERED_AT_ONCE = 50


class Given(msgspec.Struct, frozen=True):
    """An estimate as instants of farm time; see ``EstimateMade``."""

    dispatch_at: float | None
    mean_at: float | None = None
    quantiles_at: tuple[float, ...] = ()


class Giver(Protocol):
    """Estimates dispatch times."""

    rules: str
    run_times: str
    #: ``prepare`` may be spread over some time
    in_steps: bool

    def prepare(self, scheduler: Scheduler, at: float) -> Iterator[None]:
        """Return the steps after which ``give`` is cheap; they are about the farm of now."""

    def give(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float) -> list[Given]:
        """Return an estimate for each of these waiting jobs, in order; ``prepare`` comes first."""


class _Asked(msgspec.Struct, frozen=True):
    """Jobs whose submission was handled at this farm time, and how many waited then."""

    at: float
    jobs: list[JobState]
    depth: int


class EstimatingWorld:
    """A world whose submissions are followed by the estimates that the givers make of them.

    Every ``every``-th submitted job is given estimates (1: all). ``learners`` take all events in:
    they teach the runtime estimators of the givers that do not use the scheduler's own.

    ``add_event``: of a live world, for later events. Then givers that can work in steps do, and
    ``step`` is to be called whenever there is time. What is submitted before the end has its turn
    afterwards, all together; a job that waits no more by then is estimated like a new one.
    """

    def __init__(
        self,
        world: World,
        scheduler: Scheduler,
        givers: Sequence[Giver],
        *,
        every: int = 1,
        learners: Sequence[Learner] = (),
        add_event: AddEvent | None = None,
    ) -> None:
        self.execute = world.execute
        self._next = world.next_event
        self._scheduler = scheduler
        self._prompt = [giver for giver in givers if add_event is None or not giver.in_steps]
        self._patient = [giver for giver in givers if giver not in self._prompt]
        self._every = every
        self._learners = learners
        self._add_event = add_event
        self._submitted: JobsSubmitted | None = None
        self._count = 0
        self._events: deque[EstimateMade] = deque()
        #: what the patient givers are asked for, and what they are at
        self._asked: list[_Asked] = []
        self._work: Iterator[None] | None = None
        #: farm time of the last event
        self._at = 0.0

    def next_event(self) -> Event | None:
        """Return the next event: an estimate that is due, else what the world says."""
        if self._submitted is not None:
            self._estimate(self._submitted)
            self._submitted = None
        event = None if self._events else self._next()
        if event is None:
            return self._answered()
        self._at = event.at
        for learner in self._learners:
            learner.take(event)
        if type(event) is JobsSubmitted:
            self._submitted = event
        return event

    def _answered(self) -> Event | None:
        """Return the next estimate; None: the world is over, and everything is answered."""
        while not self._events and self._go_on():
            pass
        return _stamped(self._events.popleft(), self._at) if self._events else None

    def _estimate(self, event: JobsSubmitted) -> None:
        chosen = self._chosen(event)
        if not chosen:
            return
        waiting = [state for state in chosen if executing(state).slot is None]
        asked = _Asked(event.at, waiting, self._depth())
        for giver in self._prompt:
            given = self._given_at_once(giver, asked)
            self._events.extend(_made(giver, state, asked, given.get(state)) for state in chosen)
        started = [state for state in chosen if executing(state).slot is not None]
        for giver in self._patient:
            self._events.extend(_made(giver, state, asked, None) for state in started)
        if waiting and self._patient:
            self._asked.append(asked)
            if self._work is None:
                self._begin()

    def _depth(self) -> int:
        return sum(lane.waiting for lane in self._scheduler.dispatcher.matching.lanes)

    def _chosen(self, event: JobsSubmitted) -> list[JobState]:
        """Return those of the submitted jobs that are given estimates."""
        chosen = []
        for job in event.jobs:
            self._count += 1
            if (self._count - 1) % self._every == 0:
                state = self._scheduler.jobs.get(job.id)
                if state is not None and state.job is job:
                    chosen.append(state)
        return chosen

    def _given_at_once(self, giver: Giver, asked: _Asked) -> dict[JobState, Given]:
        """Return a giver's estimates of what was asked for just now."""
        if not asked.jobs:
            return {}
        for _ in giver.prepare(self._scheduler, asked.at):
            pass
        return dict(zip(asked.jobs, giver.give(self._scheduler, asked.jobs, asked.at), strict=True))

    # --- in steps ---------------------------------------------------------------------------

    def step(self) -> bool:
        """Work a little on what was asked for; return whether there is more to do."""
        more = self._go_on()
        while self._events and self._add_event is not None:
            made = self._events.popleft()
            self._add_event(lambda at, made=made: _stamped(made, at))  # type: ignore[misc]
        return more

    def _go_on(self) -> bool:
        if self._work is None and self._asked:
            self._begin()
        if self._work is not None and next(self._work, self) is self:
            self._work = None
        return self._work is not None or bool(self._asked)

    def _begin(self) -> None:
        """Begin to answer all that was asked for so far; note at once what the farm is like."""
        batch, self._asked = self._asked, []
        steps = [giver.prepare(self._scheduler, self._at) for giver in self._patient]
        self._work = self._working(steps, batch, self._at)

    def _working(
        self, steps: list[Iterator[None]], batch: list[_Asked], at: float
    ) -> Iterator[None]:
        for giver, work in zip(self._patient, steps, strict=True):
            yield from work
            for asked in batch:
                yield from self._answering(giver, asked, at)

    def _answering(self, giver: Giver, asked: _Asked, at: float) -> Iterator[None]:
        for begin in range(0, len(asked.jobs), ANSWERED_AT_ONCE):
            some = asked.jobs[begin : begin + ANSWERED_AT_ONCE]
            given = zip(some, giver.give(self._scheduler, some, at), strict=True)
            self._events.extend(_made(giver, state, asked, found) for state, found in given)
            yield


def executing(state: JobState) -> JobState:
    """Return the job whose execution serves this one."""
    return state.leader or state


def _made(giver: Giver, state: JobState, asked: _Asked, given: Given | None) -> EstimateMade:
    """Return an estimate as an event; without one the job was dispatched at once."""
    found = Given(asked.at) if given is None else given
    return EstimateMade(
        asked.at,
        state.job.id,
        giver.rules,
        found.dispatch_at,
        giver.run_times,
        0 if given is None else asked.depth,
        found.mean_at,
        found.quantiles_at,
    )


def _stamped(made: EstimateMade, at: float) -> EstimateMade:
    """Return an estimate that is put in now, at this farm time."""
    if made.at == at:
        return made
    return msgspec.structs.replace(made, at=at, asked_at=made.at)
