"""The simulated world: the same facts as the live farm, in virtual time.

No clock, no I/O, no threads. What will happen stands in an agenda; a job's end is put there when
it starts, and moves when its neighbours on the builder change (contention).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from farm.core import events
from farm.core.commands import CancelJob, Command, EndJob, RetireBuilder, SetAlarm, StartJob
from farm.core.events import Event, JobFinished, JobsSubmitted, JobStarted
from farm.core.model import Job, Outcome
from farm.core.pools.spec import PoolSpec
from farm.sim.agenda import FINISH, TICK, Agenda
from farm.sim.builder_life import BuilderLife
from farm.sim.provisioning import SimulatedProvisioner

Arrivals = Iterator[tuple[float, tuple[Job, ...]]]

PATIENCE = 7 * 86_400.0
"""Farm seconds without an arrival or a start after which builders that come and go, with jobs that
none of them takes, are not watched any longer."""

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

    ``arrivals`` yields (instant, jobs submitted together), the instants not decreasing.
    """

    def __init__(
        self, pools: Sequence[PoolSpec], arrivals: Arrivals, *, ends_at: float = 0.0
    ) -> None:
        self.now = 0.0
        #: the run lasts at least so long: builders live on when there is nothing left to do
        self._ends_at = ends_at
        self._pools = {pool.name: pool for pool in pools}
        self._arrivals = arrivals
        self._agenda = Agenda()
        #: facts of this very instant that follow from the orders just carried out
        self._at_once: deque[Event] = deque()
        self._lives: dict[str, BuilderLife] = {}
        self._builders_made = 0
        self._made_by_pool: dict[str, int] = dict.fromkeys(self._pools, 0)
        #: jobs handed in and not ended
        self._open_jobs = 0
        #: when something last moved: an arrival, a start, or a job found running
        self._moved_at = 0.0
        self._gave_up = False
        self._next_arrival_at, self._next_jobs = next(arrivals, _NO_MORE)
        for pool in pools:
            for _ in range(pool.builders):
                self.request_builder(pool.name)

    def provision(self, provisioner: SimulatedProvisioner) -> None:
        """Let a provisioner size a pool from now on."""
        provisioner.begin(self._agenda, self._at_once)

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
                    return self._give_up()
                jobs = self._next_jobs
                self.now = self._moved_at = arrives_at
                self._open_jobs += len(jobs)
                self._next_arrival_at, self._next_jobs = next(self._arrivals, _NO_MORE)
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
            if at - self._moved_at > PATIENCE and arrives_at == _NEVER and self._stuck(at):
                return self._give_up()
            event: Event | None = what.due(serial, at)
            if event is not None:
                return event

    def execute(self, command: Command) -> None:
        """Carry out an order; facts that follow at this instant come out next."""
        if type(command) is StartJob:
            at, job = self.now, command.job
            self._moved_at = at
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
        elif isinstance(command, CancelJob):
            if command.builder in self._lives:
                self._lives[command.builder].cancel(command, self.now)
        elif isinstance(command, RetireBuilder) and command.builder in self._lives:
            self._lives[command.builder].retire(self.now)
        elif isinstance(command, SetAlarm):
            self._agenda.put(max(self.now, command.rings_at), TICK, 0, _ALARM)

    # --- what happens -----------------------------------------------------------------------

    def _stuck(self, at: float) -> bool:
        """Whether jobs wait, none runs, and only builders come and go."""
        if not self._open_jobs or self._gave_up:
            return False
        if any(life.attempts for life in self._lives.values()):
            self._moved_at = at
            return False
        return True

    def _give_up(self) -> Event | None:
        """With nothing left to come, the run is over, or the rest can never run: cancel it."""
        if not self._open_jobs or self._gave_up:
            return None
        self._gave_up = True
        reason = "no builder will ever be able to run it"
        return events.CancelRequested(self.now, invocation=(), reason=reason)

    def request_builder(self, pool_name: str) -> str:
        """Ask for one more builder of the pool, at this instant; return its id."""
        pool = self._pools[pool_name]
        self._builders_made += 1
        number = self._made_by_pool[pool_name] = self._made_by_pool[pool_name] + 1
        builder = pool.builder(number, self._builders_made)
        life = BuilderLife(builder, pool, self._agenda, self._at_once, self._gone)
        self._at_once.append(events.BuilderRequested(self.now, builder.id, pool_name))
        self._lives[builder.id] = life
        life.boot(self.now)
        return builder.id

    def lose_builder(self, name: str, reason: str = "lost") -> None:
        """Let a builder vanish without notice, at this instant."""
        life = self._lives.get(name)
        if life is not None:
            life.lose(self.now, reason)

    def _gone(self, life: BuilderLife) -> None:
        """A builder is no more; a fixed pool is kept at its size."""
        del self._lives[life.builder.id]
        if not life.pool.provisioned:
            self.request_builder(life.pool.name)
