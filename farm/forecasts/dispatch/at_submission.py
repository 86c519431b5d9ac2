"""Adds a dispatch estimate for every submitted job, as an event of the run.

``EstimatingWorld`` wraps a simulated or live world: after each submission it inserts one
``EstimateMade`` event for each job and each forecaster. The scheduler only records them, so they
change nothing in the run.

A simulated farm waits for them: its estimates follow the submission immediately. A live one does
not wait: long computations are done in small steps between its events, for the farm's state at the
first step, and the estimates are inserted when they are ready, with the time of the request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from farm.core.driver import World
from farm.core.events import EstimateMade, Event, JobsSubmitted
from farm.core.state.working_state import JobState, JobStatus

if TYPE_CHECKING:  # a command that asks a live farm needs neither
    from farm.core.scheduler import Scheduler
    from farm.forecasts.runtime.training import Learner

AddEvent = Callable[[Callable[[float], Event]], None]
"""Inserts an event into a world; the event is made from the farm time of its insertion."""


Steps = Iterator[bool]
"""Work in small steps; each yields whether the next one has to wait for another process."""

#: estimates made in one step: less than a millisecond
FORECASTS_PER_STEP = 50


class Forecast(msgspec.Struct, frozen=True):
    """An estimate as instants of farm time; see ``EstimateMade``."""

    dispatch_at: float | None
    mean_at: float | None = None
    quantiles_at: tuple[float, ...] = ()
    #: the method, where it is not the forecaster's ``rules``
    rules: str = ""


class Forecaster(Protocol):
    """Estimates dispatch times."""

    rules: str
    run_times: str
    #: ``prepare`` may be spread over some time
    in_steps: bool

    def take(self, event: Event, scheduler: Scheduler) -> None:
        """Learn from the farm's next event, before the scheduler handles it."""

    def prepare(self, scheduler: Scheduler, jobs: Sequence[JobState], at: float, /) -> Steps:
        """Return the steps that prepare ``forecast`` for these jobs and the present state."""

    def forecast(
        self, scheduler: Scheduler, jobs: Sequence[JobState], at: float, /
    ) -> Sequence[Forecast | None]:
        """Return an estimate for each of these jobs, in order, after ``prepare``; None: none."""


class _Request(msgspec.Struct, frozen=True):
    """Jobs submitted at this farm time, and how many were waiting then."""

    at: float
    jobs: list[JobState]
    depth: int


class EstimatingWorld:
    """A world that adds estimates after each submission.

    Every ``every``-th submitted job gets estimates (1: all). ``learners`` receive all events, for
    the runtime estimators of those forecasters that do not use the scheduler's.

    ``add_event`` inserts events later (in a live world). Then forecasters that can work in steps do
    so, and ``step`` is to be called whenever there is time. Jobs submitted in the meantime are
    estimated together afterwards; one that no longer waits by then is estimated like a new job.
    ``pause`` is called while another process is waited for, after the world's end.
    """

    def __init__(
        self,
        world: World,
        scheduler: Scheduler,
        forecasters: Sequence[Forecaster],
        *,
        every: int = 1,
        learners: Sequence[Learner] = (),
        add_event: AddEvent | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.execute = world.execute
        self._next = world.next_event
        self._scheduler = scheduler
        self._forecasters = forecasters
        self._immediate = [one for one in forecasters if add_event is None or not one.in_steps]
        self._in_steps = [one for one in forecasters if one not in self._immediate]
        self._every = every
        self._learners = learners
        self._add_event = add_event
        self._pause = pause
        self._submitted: JobsSubmitted | None = None
        self._count = 0
        self._events: deque[EstimateMade] = deque()
        #: the requests for forecasts in steps, and the current one
        self._asked: list[_Request] = []
        self._work: Steps | None = None
        #: farm time of the last event
        self._at = 0.0

    def next_event(self) -> Event | None:
        """Return the next event: an estimate that is due, or else the world's next event."""
        if self._submitted is not None:
            self._estimate(self._submitted)
            self._submitted = None
        event = None if self._events else self._next()
        if event is None:
            return self._remaining()
        self._at = event.at
        for learner in self._learners:
            learner.take(event)
        for forecaster in self._forecasters:
            forecaster.take(event, self._scheduler)
        if type(event) is JobsSubmitted:
            self._submitted = event
        return event

    def _remaining(self) -> Event | None:
        """Return the next estimate after the world's end; None after the last."""
        while not self._events and self._is_unfinished:
            if not self._advance():
                self._pause()
        return _stamped(self._events.popleft(), self._at) if self._events else None

    def _estimate(self, event: JobsSubmitted) -> None:
        chosen = self._chosen(event)
        if not chosen:
            return
        waiting = [state for state in chosen if executing(state).slot is None]
        asked = _Request(event.at, waiting, self._scheduler.dispatcher.matching.waiting())
        for forecaster in self._immediate:
            forecasts = self._immediately(forecaster, asked)
            self._events.extend(
                _made(forecaster, state, asked, forecasts.get(state)) for state in chosen
            )
        started = [state for state in chosen if executing(state).slot is not None]
        for forecaster in self._in_steps:
            self._events.extend(_made(forecaster, state, asked, None) for state in started)
        if waiting and self._in_steps:
            self._asked.append(asked)
            if self._work is None:
                self._begin()

    def _chosen(self, event: JobsSubmitted) -> list[JobState]:
        """Return the submitted jobs that get estimates."""
        chosen = []
        for job in event.jobs:
            self._count += 1
            if (self._count - 1) % self._every == 0:
                state = self._scheduler.jobs.get(job.id)
                is_blocked = state is not None and state.status is JobStatus.BLOCKED
                if state is not None and state.job is job and not is_blocked:
                    chosen.append(state)
        return chosen

    def _immediately(
        self, forecaster: Forecaster, asked: _Request
    ) -> dict[JobState, Forecast | None]:
        """Return a forecaster's estimates for the current request."""
        if not asked.jobs:
            return {}
        for _ in forecaster.prepare(self._scheduler, asked.jobs, asked.at):
            pass
        return dict(
            zip(asked.jobs, forecaster.forecast(self._scheduler, asked.jobs, asked.at), strict=True)
        )

    # --- in steps ---------------------------------------------------------------------------

    def step(self) -> bool:
        """Do one step of the requested work; return whether more can be done now."""
        more = self._advance()
        while self._events and self._add_event is not None:
            made = self._events.popleft()
            self._add_event(partial(_stamped, made))
        return more

    @property
    def _is_unfinished(self) -> bool:
        return self._work is not None or bool(self._asked)

    def _advance(self) -> bool:
        if self._work is None and self._asked:
            self._begin()
        if self._work is None:
            return False
        waits = next(self._work, None)
        if waits is None:
            self._work = None
        return not waits and self._is_unfinished

    def _begin(self) -> None:
        """Start on all requests so far, from the farm's present state."""
        batch, self._asked = self._asked, []
        jobs = [state for asked in batch for state in asked.jobs]
        steps = [one.prepare(self._scheduler, jobs, self._at) for one in self._in_steps]
        self._work = self._steps(steps, batch, self._at)

    def _steps(self, steps: list[Steps], batch: list[_Request], at: float) -> Steps:
        for forecaster, work in zip(self._in_steps, steps, strict=True):
            yield from work
            for asked in batch:
                yield from self._forecasting(forecaster, asked, at)

    def _forecasting(self, forecaster: Forecaster, asked: _Request, at: float) -> Steps:
        for begin in range(0, len(asked.jobs), FORECASTS_PER_STEP):
            some = asked.jobs[begin : begin + FORECASTS_PER_STEP]
            forecasts = zip(some, forecaster.forecast(self._scheduler, some, at), strict=True)
            self._events.extend(
                _made(forecaster, state, asked, found) for state, found in forecasts if found
            )
            yield False


def executing(state: JobState) -> JobState:
    """Return the job whose execution serves this one."""
    return state.leader or state


def _made(
    forecaster: Forecaster, state: JobState, asked: _Request, forecast: Forecast | None
) -> EstimateMade:
    """Return an estimate as an event; without one the job was dispatched immediately."""
    found = forecast or Forecast(asked.at)
    return EstimateMade(
        asked.at,
        state.job.id,
        found.rules or forecaster.rules,
        found.dispatch_at,
        forecaster.run_times,
        0 if forecast is None else asked.depth,
        found.mean_at,
        found.quantiles_at,
    )


def _stamped(made: EstimateMade, at: float) -> EstimateMade:
    """Return an estimate that is inserted at this farm time."""
    if made.at == at:
        return made
    return msgspec.structs.replace(made, at=at, asked_at=made.at)
