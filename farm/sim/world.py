"""The simulated world: the same events as the live farm, in virtual time.

No clock, no I/O, no threads. Future events are in an agenda; a job's end is added when it starts,
and moves when its neighbours on the builder change (contention).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator, Sequence
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
from farm.core.events import (
    BuilderLost,
    BuilderRetired,
    Event,
    JobsSubmitted,
)
from farm.core.jobs.needs import ended_needs
from farm.core.model import Builder, Job, Outcome
from farm.core.pools.spec import PoolSpec
from farm.core.simultaneity import latest_same
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.core.state.working_state import JobStatus
from farm.emulation.agenda import ALARM, ARRIVAL, FINISH, Action, Due
from farm.emulation.behaviour import spec_of
from farm.emulation.builder import EmulatedBuilder
from farm.plugins.own_behaviours import OwnBehaviours
from farm.sim.provisioning import SimulatedProvisioner
from farm.sim.too_large import LivesAtOneInstant
from farm.workload import Submissions

Arrivals = Iterator[tuple[float, tuple[Job, ...]]]
EndOf = Callable[[JobRecord], float]
"""Says at which instant a running attempt of a snapshot will end."""

_NEVER = float("inf")
#: timers and plans in a row, with no job to come and none running, that led to nothing: the jobs
#: that still wait will wait forever
MOST_IN_VAIN = 1_000_000
_NO_MORE: tuple[float, tuple[Job, ...]] = (_NEVER, ())


class SimulatedWorld:
    """A world for ``farm.core.driver.drive``: pools of builders and a stream of arrivals.

    ``arrivals`` yields (instant, jobs submitted together), the instants not decreasing. ``start``
    is the initial farm, live or simulated (default: an empty one at 0 s), and ``end_of`` returns
    when its attempts end. ``needed`` are the jobs that others need, by id: how they ended is known
    to those that arrive later. Details missing in a snapshot are assumed: a slot that is being
    cleaned needs the whole cleaning time again, a builder that shuts down the whole shutdown time.
    Builders of a pool that is not among ``pools`` need no time for either.
    """

    def __init__(
        self,
        pools: Sequence[PoolSpec],
        arrivals: Arrivals,
        *,
        ends_at: float = 0.0,
        start: FarmSnapshot | None = None,
        end_of: EndOf = lambda _: 0.0,
        needed: Container[str] = (),
    ) -> None:
        at = 0.0 if start is None else start.at
        #: the minimum length of the run: builders live on when there is nothing left to do
        self._ends_at = ends_at
        self._pools = {pool.name: pool for pool in pools}
        #: by pool, the user's behaviours
        self.behaviours = {
            pool.name: OwnBehaviours(pool.behaviour, f"pools.{pool.name}.behaviour")
            for pool in pools
            if pool.behaviour
        }
        self._arrivals = arrivals
        self._agenda = VirtualAgenda()
        self._agenda.now = at
        #: events of this very instant that follow from the last commands
        # an initial farm already has its provisioners: they size their pools
        self._at_once: deque[Event] = deque([events.FarmOpened(at, provisioned=start is None)])
        self._played: dict[str, EmulatedBuilder] = {}
        self._lives = LivesAtOneInstant()
        #: provisioners whose next ticks are skipped until something happens
        self._resting: list[SimulatedProvisioner] = []
        #: agenda entries since one led to an event
        self._in_vain = 0
        #: ids of submitted jobs that have not ended: one that is submitted twice ends once
        self._open_jobs: set[str] = set()
        self._needed = needed
        #: how those ended that are needed, by id
        self._outcomes: dict[str, Outcome] = {}
        #: where people answer how jobs end, what they submit is in the arrivals
        self._answered = arrivals if isinstance(arrivals, Submissions) else None
        self._next_arrival_at, self._next_jobs = next(arrivals, _NO_MORE)
        self._arrivals_ended = self._next_arrival_at == _NEVER
        if self._arrivals_ended:
            self._at_once.append(events.ArrivalsEnded(at))
        if start is not None:
            self._take_over(start, end_of)

    def provision(self, provisioner: SimulatedProvisioner) -> None:
        """Let a provisioner size a pool from now on."""
        provisioner.begin(self._agenda, self._at_once.append, self._resting)

    @property
    def now(self) -> float:
        """The present instant, farm time."""
        return self._agenda.now

    def fraction_done(self, job: str) -> float | None:
        """Return which part of a running attempt's work is done now, 0 to 1; None: none runs."""
        played = (one for one in self._played.values() if job in one.attempts)
        if (builder := next(played, None)) is None:
            return None
        return builder.fraction_done(job)

    # --- the World protocol -----------------------------------------------------------------

    def next_event(self) -> Event | None:
        """Return the next event, or None when the last job has ended and none will come."""
        at_once = self._at_once
        if at_once:
            return at_once.popleft()
        agenda = self._agenda
        heap = agenda.heap
        while True:
            arrives_at = self._next_arrival_at
            if not heap or arrives_at < heap[0][0]:
                if arrives_at == _NEVER:
                    return None
                if heap and agenda.gather(arrives_at):
                    continue
                jobs = self._next_jobs
                agenda.now = arrives_at
                self._open_jobs.update([job.id for job in jobs])
                self._next_arrival_at, self._next_jobs = next(self._arrivals, _NO_MORE)
                if self._next_arrival_at == _NEVER and not self._arrivals_ended:
                    self._arrivals_ended = True
                    at_once.append(events.ArrivalsEnded(arrives_at))
                if self._resting:
                    self._wake(arrives_at, ARRIVAL, 0)
                if self._outcomes:
                    return JobsSubmitted(arrives_at, jobs, ended_needs(jobs, self._outcomes))
                return JobsSubmitted(arrives_at, jobs)
            if arrives_at == _NEVER and not self._open_jobs and heap[0][0] > self._ends_at:
                return None
            at, rank, place, _, due = top = heappop(heap)
            if due.action is None:
                continue  # revoked
            if rank == FINISH and at != agenda.gathered_at and agenda.gather(at):
                heappush(heap, top)
                continue
            agenda.now = at
            due.action(at)
            if at_once:
                if self._resting:
                    self._wake(at, rank, place)
                self._in_vain = 0
                return at_once.popleft()
            self._in_vain += 1
            if self._in_vain > MOST_IN_VAIN and arrives_at == _NEVER:
                if not any(played.attempts for played in self._played.values()):
                    return None
                self._in_vain = 0

    def execute(self, command: Command) -> None:
        """Carry out a command; events that follow at this instant come out next."""
        if type(command) is StartJob:
            builder = self._played.get(command.builder)
            if builder is not None:  # else it was lost at this instant: the scheduler learns of it
                builder.start(command)
        elif type(command) is EndJob:
            self._open_jobs.discard(command.job.id)
            if self._needed and command.job.id in self._needed:
                self._outcomes[command.job.id] = command.outcome
            if self._answered is not None:
                self._answer(self._answered, command)
        elif type(command) is RequestBuilder:
            self._emulate(command.builder).boot()
        elif type(command) is SetAlarm:
            self._agenda.put(max(self.now, command.rings_at), ALARM, 0, self._ring)
        elif isinstance(command, CancelJob | RetireBuilder | LoseBuilder):
            played = self._played.get(command.builder)
            if played is not None:
                played.obey(command)

    def _answer(self, people: Submissions, end: EndJob) -> None:
        """Tell people how a job has ended; what they submit then may be the next to come."""
        if not people.ended(end):
            return
        if self._next_arrival_at < _NEVER:
            people.put_back((self._next_arrival_at, self._next_jobs))
        self._next_arrival_at, self._next_jobs = next(people, _NO_MORE)

    # --- an initial farm --------------------------------------------------------------------

    def _take_over(self, start: FarmSnapshot, end_of: EndOf) -> None:
        """Take over a farm's builders, their attempts and booting builders."""
        jobs = (*start.running, *start.waiting, *start.blocked)
        self._open_jobs = {record.job.id for record in jobs if not record.abandoned}
        attempts: dict[str | None, list[JobRecord]] = defaultdict(list)
        for attempt in start.running:
            attempts[attempt.builder].append(attempt)
        for record in start.builders:
            self._resume(record, attempts[record.builder.id], end_of)
        for pool in start.pools:
            for request in pool.requested.values():
                self._emulate(request.builder).boot(request.at)

    def _resume(self, record: BuilderRecord, attempts: Sequence[JobRecord], end_of: EndOf) -> None:
        builder, at = record.builder.id, self.now
        played = self._emulate(record.builder)
        running = [
            (
                StartJob(one.job, one.attempts, builder, one.slot or 0, one.sent_size),
                max(at, end_of(one)),
            )
            for one in attempts
        ]
        played.resume(record.joined_at, running, record.cleaning)
        for one in attempts:
            job, number = one.job.id, one.attempts
            if one.status is JobStatus.DISPATCHED:
                self._at_once.append(played.started(played.attempts[job]))
            elif one.status is JobStatus.CANCELLING:
                played.cancel(CancelJob(job, number, builder, one.reason))
        if record.retired:
            played.retire()

    # --- events ----------------------------------------------------------------------------

    def _wake(self, at: float, rank: int, place: int) -> None:
        """Wake the provisioners: something happens at that place of the agenda."""
        for provisioner in self._resting:
            provisioner.wake(at, rank, place)
        self._resting.clear()

    def _emulate(self, builder: Builder) -> EmulatedBuilder:
        """Add an emulated builder."""
        pool = self._pools.get(builder.pool) or PoolSpec(name=builder.pool)
        spec = spec_of(pool, builder)
        own = self.behaviours.get(pool.name)
        behaviour = None if own is None else own.of(spec)
        played = EmulatedBuilder(spec, self._agenda, self._reported, behaviour)
        self._played[builder.id] = played
        return played

    def _reported(self, event: Event) -> None:
        """Receive an event from a builder, of this instant."""
        self._at_once.append(event)
        if type(event) is BuilderLost or type(event) is BuilderRetired:
            self._lives.gone(event.at, len(self._played), len(self._open_jobs))
            del self._played[event.builder]

    def _ring(self, at: float) -> None:
        self._at_once.append(events.AlarmRang(at))


class VirtualAgenda:
    """A heap of ``(at, rank, place, serial, due)``; see ``farm.emulation.agenda`` for its order.

    Arrivals come last of all at their instant: the simulated world keeps them apart, because they
    are read from the workload only when their time comes.
    """

    __slots__ = ("gathered_at", "heap", "now", "serial")

    def __init__(self) -> None:
        self.now = 0.0
        self.heap: list[tuple[float, int, int, int, Due]] = []
        #: entries ever put in; also the last tie-breaker
        self.serial = 0
        #: the last instant to which simultaneous ends were moved
        self.gathered_at = -1.0

    def put(self, at: float, rank: int, place: int, action: Action) -> Due:
        """Schedule an entry at that instant."""
        entry = Due(action)
        self.serial = serial = self.serial + 1
        heappush(self.heap, (at, rank, place, serial, entry))
        return entry

    def gather(self, at: float) -> bool:
        """Move the ends of jobs that are simultaneous to this instant, the first of them.

        What is due at it or before it has been taken out. Returns whether any was moved.
        """
        self.gathered_at = at
        heap, latest = self.heap, latest_same(at)
        if not heap or heap[0][0] > latest:
            return False
        due = []
        while heap and heap[0][0] <= latest:
            due.append(heappop(heap))
        moved = False
        for due_at, rank, place, serial, entry in due:
            joins = rank == FINISH and due_at > at
            heappush(heap, (at if joins else due_at, rank, place, serial, entry))
            moved = moved or joins
        return moved
