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
from farm.core.events import (
    BuilderLost,
    BuilderRetired,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Job, Outcome
from farm.core.pools.spec import PoolSpec
from farm.emulation.agenda import FINISH, TICK, Entry
from farm.emulation.builder import EmulatedBuilder
from farm.emulation.spec import spec_of
from farm.sim.agenda import Agenda
from farm.sim.idleness import IdleWatch
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
        #: the run lasts at least so long: builders live on when there is nothing left to do
        self._ends_at = ends_at
        self._pools = {pool.name: pool for pool in pools}
        self._arrivals = arrivals
        self._agenda = Agenda()
        #: facts of this very instant that follow from the orders just carried out
        self._at_once: deque[Event] = deque()
        self._played: dict[str, EmulatedBuilder] = {}
        self._watches: dict[str, IdleWatch] = {}
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

    @property
    def now(self) -> float:
        """The present instant, farm time."""
        return self._agenda.now

    # --- the World protocol -----------------------------------------------------------------

    def next_event(self) -> Event | None:
        """Return the next fact, or None when the last job has ended and none will come."""
        at_once = self._at_once
        if at_once:
            return at_once.popleft()
        agenda = self._agenda
        heap = agenda.heap
        while True:
            arrives_at = self._next_arrival_at
            if not heap or arrives_at < heap[0][0]:
                if arrives_at == _NEVER:
                    return self._give_up()
                jobs = self._next_jobs
                agenda.now = self._moved_at = arrives_at
                self._open_jobs += len(jobs)
                self._next_arrival_at, self._next_jobs = next(self._arrivals, _NO_MORE)
                return JobsSubmitted(arrives_at, jobs)
            if arrives_at == _NEVER and not self._open_jobs and heap[0][0] > self._ends_at:
                return None
            at, _, _, serial, what = heappop(heap)
            if type(what) is StartJob:
                builder = self._played.get(what.builder)
                if builder is None or builder.attempts.get(what.job.id) is not what:
                    continue  # stopped before its end
                agenda.now = at
                del builder.attempts[what.job.id]
                outcome: Outcome = "failed" if what.job.fails else "succeeded"
                return JobFinished(at, what.job.id, what.attempt, what.builder, outcome)
            agenda.now = at
            if at - self._moved_at > PATIENCE and arrives_at == _NEVER and self._stuck(at):
                return self._give_up()
            if type(what) is Entry:
                if what.action is not None:
                    what.action(at)
                if at_once:
                    return at_once.popleft()
                continue
            event: Event | None = what.due(serial, at)
            if event is not None:
                return event

    def execute(self, command: Command) -> None:
        """Carry out an order; facts that follow at this instant come out next."""
        if type(command) is StartJob:
            agenda = self._agenda
            self._moved_at = at = agenda.now
            builder = self._played.get(command.builder)
            if builder is None:
                return  # it was lost at this instant: the scheduler learns that next
            if not builder.simple:
                builder.start(command)
                return
            # what EmulatedBuilder.start comes to then, without its calls
            job = command.job
            self._at_once.append(JobStarted(at, job.id, command.attempt, command.builder))
            builder.attempts[job.id] = command
            agenda.serial = serial = agenda.serial + 1
            finish_at = at + job.service_time / builder.speed
            place = builder.place + command.slot
            heappush(agenda.heap, (finish_at, FINISH, place, serial, command))
        elif type(command) is EndJob:
            self._open_jobs -= 1
        elif isinstance(command, CancelJob):
            if command.builder in self._played:
                self._played[command.builder].cancel(command)
        elif isinstance(command, RetireBuilder) and command.builder in self._played:
            self._played[command.builder].retire()
        elif isinstance(command, SetAlarm):
            self._agenda.add(max(self.now, command.rings_at), TICK, 0, _ALARM)

    # --- what happens -----------------------------------------------------------------------

    def _stuck(self, at: float) -> bool:
        """Whether jobs wait, none runs, and only builders come and go."""
        if not self._open_jobs or self._gave_up:
            return False
        if any(builder.attempts for builder in self._played.values()):
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
        self._at_once.append(events.BuilderRequested(self.now, builder.id, pool_name))
        self._emulate(builder, pool).boot()
        return builder.id

    def _emulate(self, builder: Builder, pool: PoolSpec) -> EmulatedBuilder:
        """Let a builder be there from now on."""
        report, watch = self._reported, None
        if pool.idle_timeout is not None:
            watch = self._watches[builder.id] = IdleWatch(pool.idle_timeout, self._agenda, report)
            report = watch.hear
        played = EmulatedBuilder(spec_of(pool, builder), self._agenda, report)
        if watch is not None:
            watch.builder, played.simple = played, False
        self._played[builder.id] = played
        return played

    def lose_builder(self, name: str, reason: str = "lost") -> None:
        """Let a builder be lost without notice, at this instant."""
        builder = self._played.get(name)
        if builder is not None:
            builder.lose(reason)

    def _reported(self, event: Event) -> None:
        """Take an event from a builder; it is told at this instant."""
        self._at_once.append(event)
        if type(event) is BuilderLost or type(event) is BuilderRetired:
            self._gone(self._played.pop(event.builder).builder.pool)

    def _gone(self, pool_name: str) -> None:
        """A builder is no more; a fixed pool is kept at its size."""
        if not self._pools[pool_name].provisioned:
            self.request_builder(pool_name)
