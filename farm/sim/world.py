"""The simulated world: the same facts as the live farm, in virtual time.

No clock, no I/O, no threads. What will happen stands in an agenda; a job's end is put there when
it starts, and moves when its neighbours on the builder change (contention).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from farm.core import events
from farm.core.commands import (
    CancelJob,
    Command,
    EndJob,
    LoseBuilder,
    RequestBuilder,
    RetireBuilder,
    SetAlarm,
    StartJob,
)
from farm.core.events import Event, JobFinished, JobsSubmitted, JobStarted
from farm.core.model import Builder, Job, Outcome
from farm.core.pools.spec import PoolSpec
from farm.sim.agenda import ALARM, FINISH, Agenda
from farm.sim.builder_life import BuilderLife
from farm.sim.provisioning import SimulatedProvisioner

Arrivals = Iterator[tuple[float, tuple[Job, ...]]]

_NEVER = float("inf")
_NO_MORE: tuple[float, tuple[Job, ...]] = (_NEVER, ())


class _Alarm:
    """An alarm in the agenda."""

    def due(self, serial: int, at: float) -> Event:  # noqa: ARG002 - as every entry's
        """Ring."""
        return events.AlarmRang(at)


_ALARM = _Alarm()


class SimulatedWorld:
    """A world for ``farm.core.driver.drive``: pools of builders and a stream of arrivals.

    ``arrivals`` yields (instant, jobs submitted together), the instants not decreasing; ``opening``
    is the first event (default: the farm opens at 0 s).
    """

    def __init__(
        self,
        pools: Sequence[PoolSpec],
        arrivals: Arrivals,
        *,
        ends_at: float = 0.0,
        opening: events.FarmOpened | None = None,
    ) -> None:
        opening = opening or events.FarmOpened(0.0)
        self.now = opening.at
        #: the run lasts at least so long: builders live on when there is nothing left to do
        self._ends_at = ends_at
        self._pools = {pool.name: pool for pool in pools}
        self._arrivals = arrivals
        self._agenda = Agenda()
        #: facts of this very instant that follow from the orders just carried out
        self._at_once: deque[Event] = deque([opening])
        self._lives: dict[str, BuilderLife] = {}
        #: jobs handed in and not ended
        self._open_jobs = 0
        self._next_arrival_at, self._next_jobs = next(arrivals, _NO_MORE)
        self._look_for_the_end()

    def provision(self, provisioner: SimulatedProvisioner) -> None:
        """Let a provisioner size a pool from now on."""
        provisioner.begin(self._agenda)

    # --- the World protocol -----------------------------------------------------------------

    def next_event(self) -> Event | None:
        """Return the next fact, or None when the last job has ended and none will come."""
        at_once = self._at_once
        if at_once:
            return at_once.popleft()
        heap = self._agenda.heap
        while True:
            arrives_at = self._next_arrival_at
            if not heap or arrives_at < heap[0][0]:
                if arrives_at == _NEVER:
                    return None
                jobs = self._next_jobs
                self.now = arrives_at
                self._open_jobs += len(jobs)
                self._next_arrival_at, self._next_jobs = next(self._arrivals, _NO_MORE)
                self._look_for_the_end()
                return JobsSubmitted(arrives_at, jobs)
            if arrives_at == _NEVER and not self._open_jobs and heap[0][0] > self._ends_at:
                return None
            at, _, _, serial, what = heappop(heap)
            if type(what) is StartJob:
                life = self._lives.get(what.builder)
                if life is None or life.attempts.get(what.job.id) is not what:
                    continue  # stopped before its end
                self.now = at
                if life.simple:
                    del life.attempts[what.job.id]
                else:
                    life.freed(what, at)
                outcome: Outcome = "failed" if what.job.fails else "succeeded"
                return JobFinished(at, what.job.id, what.attempt, what.builder, outcome)
            self.now = at
            event: Event | None = what.due(serial, at)
            if event is not None:
                return event

    def execute(self, command: Command) -> None:
        """Carry out an order; facts that follow at this instant come out next."""
        if type(command) is StartJob:
            at, job = self.now, command.job
            life = self._lives.get(command.builder)
            if life is None:
                return  # it vanished at this instant: the scheduler hears of that next
            self._at_once.append(JobStarted(at, job.id, command.attempt, command.builder))
            life.attempts[job.id] = command
            if life.progress is None:
                agenda = self._agenda
                agenda.serial = serial = agenda.serial + 1
                finish_at = at + job.service_time / life.speed
                heappush(
                    agenda.heap, (finish_at, FINISH, life.place + command.slot, serial, command)
                )
            else:
                life.start_shared(command, at)
        elif type(command) is EndJob:
            self._open_jobs -= 1
        elif type(command) is RequestBuilder:
            self._boot(command.builder)
        elif type(command) is SetAlarm:
            self._agenda.put(max(self.now, command.rings_at), ALARM, 0, _ALARM)
        elif isinstance(command, CancelJob | RetireBuilder | LoseBuilder):
            life = self._lives.get(command.builder)
            if life is not None:
                self._tell(life, command)

    # --- what happens -----------------------------------------------------------------------

    def _look_for_the_end(self) -> None:
        """Say so when nothing more will arrive."""
        if self._next_arrival_at == _NEVER:
            self._at_once.append(events.ArrivalsEnded(self.now))

    def _boot(self, builder: Builder) -> None:
        pool = self._pools[builder.pool]
        life = BuilderLife(builder, pool, self._agenda, self._at_once, self._gone)
        self._lives[builder.id] = life
        life.boot(self.now)

    def _tell(self, life: BuilderLife, command: CancelJob | RetireBuilder | LoseBuilder) -> None:
        if isinstance(command, CancelJob):
            life.cancel(command, self.now)
        elif isinstance(command, RetireBuilder):
            life.retire(self.now)
        else:
            life.lose(self.now)

    def _gone(self, life: BuilderLife) -> None:
        """A builder is no more."""
        del self._lives[life.builder.id]
