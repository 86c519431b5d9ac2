"""The estimates of a whole queue, computed in small steps while the farm continues.

A pass over a long queue takes longer than a dispatch may wait. A sweep first records what is cheap
to record (the jobs on builders) and makes the queues keep their order; the rest is done step by
step, whenever there is time, and the result is for the instant at which it began.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import numpy as np

from farm.core.dispatching.matching import Lane
from farm.core.model import Builder, Job, Platform
from farm.core.queues.plain import Keyed
from farm.core.state.working_state import BuilderState, JobState
from farm.forecasts.dispatch.builder_pools import BuilderPools
from farm.forecasts.dispatch.launchpad_formula import FARM, QueueEstimates, WaitingColumns
from farm.forecasts.dispatch.view import JobView, builder_view, job_view
from farm.upstream.launchpad import Rules

#: jobs of several queues, or on builders, processed in one step: less than a millisecond
STEP = 50


def _ordered_by(state: JobState) -> float:
    """Return the run time by which the policy sorted a waiting job."""
    return state.execution[0]


class SweepRunTimes(msgspec.Struct, frozen=True):
    """The run times used in a sweep, seconds; a learning estimator is called during the sweep."""

    #: of a waiting job
    waiting: Callable[[JobState], float] = _ordered_by
    #: of a job on its builder; None: the one it was sorted by
    held: Callable[[Job, Builder], float] | None = None


class QueueSweep:
    """Estimates the dispatch of every waiting job, for the state at its creation.

    Args:
        lanes: the scheduler's queues.
        builders: the present builders.
        at: now, farm time.
        rules: the rule set.
        run_times: the source of run times.
        look: called with each waiting job, in dispatch order.
        since: only the places of jobs with greater serials are kept (and of leaders); the others
            are not needed, and a million places would take much memory.
    """

    def __init__(
        self,
        lanes: Iterable[Lane],
        builders: Iterable[BuilderState],
        at: float,
        rules: Rules = FARM,
        run_times: SweepRunTimes | None = None,
        *,
        look: Callable[[JobState], None] | None = None,
        since: float = 0,
    ) -> None:
        self.at = at
        self._since = since
        #: the greatest serial of the jobs processed
        self.newest = since
        self._rules = rules
        self._run_times = run_times or SweepRunTimes()
        self._look = look
        #: places in dispatch order, by serial, of the processed jobs that are needed
        self.places: dict[int, int] = {}
        self._orders = [lane.queue.order_kept() for lane in lanes if lane.waiting]
        builders = list(builders)
        self._builders = [builder_view(state) for state in builders]
        self._held = [
            (job_view(job, state.builder.id, job.estimated_time, at), job.job, state.builder)
            for state in builders
            for slot in state.slots
            if (job := slot.running) is not None
        ]
        self._estimates: QueueEstimates | None = None
        self._work = self._steps()

    def step(self) -> bool:
        """Do one step of at most a millisecond or two; return whether more remains."""
        next(self._work, None)
        return self._estimates is None

    @property
    def estimates(self) -> QueueEstimates:
        """The result; raises RuntimeError before the end."""
        if self._estimates is None:
            raise RuntimeError("the sweep is not over yet")
        return self._estimates

    def estimate_of(self, state: JobState) -> float | None:
        """Return the seconds from ``at`` to a job's dispatch; None: no builder could run it.

        One that was not waiting when the sweep began is taken to be behind all others.
        """
        return self.estimates.new_job(state.job.platform, self.places.get(state.serial))

    def _steps(self) -> Iterator[None]:
        platforms: dict[Platform, int] = {}
        codes, durations, look = array("i"), array("d"), self._look
        run_time = self._run_times.waiting
        for states in _merged(self._orders):
            self._keep_places(states, first=len(codes))
            codes.extend([platforms.setdefault(s.job.platform, len(platforms)) for s in states])
            durations.extend(map(run_time, states))
            if look is not None:
                for state in states:
                    look(state)
            yield
        held: list[JobView] = []
        expected, replace = self._run_times.held, msgspec.structs.replace
        for view, job, builder in self._held:
            known = view if expected is None else replace(view, duration_s=expected(job, builder))
            held.append(known)
            if len(held) % STEP == 0:
                yield
        yield
        columns = WaitingColumns(
            tuple(platforms), np.array(codes, np.int32), np.array(durations, np.float64)
        )
        builder_pools = BuilderPools(self._builders, held, self._rules)
        self._estimates = QueueEstimates(columns, builder_pools, self._rules)

    def _keep_places(self, states: Sequence[JobState], first: int) -> None:
        since = self._since
        for place, state in enumerate(states, first):
            if state.serial > since or state.followers:
                self.places[state.serial] = place
        self.newest = max([self.newest, *(state.serial for state in states)])


def _merged(orders: Sequence[Iterator[list[Keyed]]]) -> Iterator[list[JobState]]:
    """Yield the jobs of all queues, always the best head next, in portions that may be empty.

    No step takes the next portion of more than one queue.
    """
    if len(orders) == 1:
        for portion in orders[0]:
            yield [state for _, state in portion]
        return
    portions: list[Iterator[Keyed]] = [iter(()) for _ in orders]
    heads: list[tuple[Keyed, int]] = []
    for place, order in enumerate(orders):
        yield from _look_up(heads, portions, place, order)
    states: list[JobState] = []
    while heads:
        (_, state), place = heapq.heappop(heads)
        states.append(state)
        entry = next(portions[place], None)
        if entry is not None:
            heapq.heappush(heads, (entry, place))
            if len(states) < STEP:
                continue
        yield states
        states = []
        if entry is None:
            yield from _look_up(heads, portions, place, orders[place])


def _look_up(
    heads: list[tuple[Keyed, int]],
    portions: list[Iterator[Keyed]],
    place: int,
    order: Iterator[list[Keyed]],
) -> Iterator[list[JobState]]:
    """Take a queue's next portion, and add its first entry to the heads."""
    for portion in order:
        yield []
        if portion:
            portions[place] = iter(portion)
            heapq.heappush(heads, (next(portions[place]), place))
            return
