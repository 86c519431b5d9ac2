"""Turns what the scheduler knows into what the store shows: only what changed, once a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from farm.core import events
from farm.core.commands import (
    CancelJob,
    Command,
    DrainBuilder,
    EndJob,
    RequeueJob,
    RetireBuilder,
    StartJob,
)
from farm.core.events import Event
from farm.core.model import Job
from farm.core.pools.keeper import PoolKeeper
from farm.core.snapshot import builder_view
from farm.core.state import BuilderState, JobState, JobStatus
from farm.live.hosts.registry import HostState, Roster
from farm.live.redis.sort_keys import encode_member
from farm.live.store.saved import Attempt, HostLife, Standing, Try
from farm.live.store.store import Batch


class FarmBook(Protocol):
    """The scheduler's memory, read by the mirror."""

    @property
    def jobs(self) -> Mapping[str, JobState]:
        """Live jobs by id."""

    @property
    def builders(self) -> Mapping[str, BuilderState]:
        """Builders that are there, by id."""

    keeper: PoolKeeper


class Mirror:
    """Collects which jobs and builders a batch of facts touched, and writes their new state."""

    def __init__(self, book: FarmBook, *, saves: bool = False) -> None:
        self._book = book
        #: whether a successor is to find all that it needs
        self._saves = saves
        self._saved: dict[str, tuple[Job, str | None, bool]] = {}
        self._jobs: dict[str, None] = {}
        self._builders: dict[str, None] = {}
        #: jobs in the store's pending sets, with their members there
        self._places: dict[str, tuple[Job, str]] = {}
        #: jobs in the store at all
        self._known: set[str] = set()
        #: serial of the last job that was new
        self._serial = 0
        self._on_builder: set[str] = set()

    @property
    def running(self) -> int:
        """How many jobs the store shows on builders."""
        return len(self._on_builder)

    def touch(self, fact: Event) -> None:
        """Note what the fact may change (what it did is looked up when all is decided)."""
        if isinstance(fact, events.JobsSubmitted):
            for job in fact.jobs:
                self.touch_job(job.id)
        elif isinstance(fact, events.JobStarted | events.JobFinished | events.AttemptLost):
            self.touch_job(fact.job)
            self.touch_builder(fact.builder)
        elif isinstance(fact, events.BuilderJoined):
            self.touch_builder(fact.builder.id)
        elif isinstance(
            fact,
            events.SlotCleaned | events.BuilderRetired | events.BuilderLost | events.LoadReported,
        ):
            self.touch_builder(fact.builder)
        elif isinstance(fact, events.PriorityChanged):
            self.touch_job(fact.job)
        elif isinstance(fact, events.DrainRequested | events.UndrainRequested):
            for builder in self._book.builders:
                self.touch_builder(builder)

    def touch_job(self, job_id: str) -> None:
        """This job may have changed."""
        self._jobs[job_id] = None

    def touch_builder(self, builder: str) -> None:
        """This builder may have changed."""
        self._builders[builder] = None

    def note(self, command: Command, at: float, batch: Batch) -> None:
        """Note what an order given at this farm time changes."""
        if isinstance(command, StartJob):
            self.touch_job(command.job.id)
            self.touch_builder(command.builder)
        elif isinstance(command, EndJob):
            self._ended(command, batch)
        elif isinstance(command, CancelJob):
            self.touch_job(command.job)
        elif isinstance(command, RequeueJob):
            self._requeued(command, at, batch)
        elif isinstance(command, DrainBuilder | RetireBuilder):
            self.touch_builder(command.builder)

    def _ended(self, order: EndJob, batch: Batch) -> None:
        """The job is over."""
        batch.ended[order.job.id] = order
        if order.job.id not in self._known:  # it came and went within this batch
            batch.submitted[order.job.id] = self._serial + 0.5
        self.touch_job(order.job.id)

    def _requeued(self, order: RequeueJob, at: float, batch: Batch) -> None:
        """An attempt came to nothing: that stays in the job's story."""
        batch.tries[order.job].append(Try(order.attempt, order.builder, at, order.reason))
        self.touch_job(order.job)

    def write(self, batch: Batch) -> None:
        """Add what changed since the last time to the batch."""
        for job_id in self._jobs:
            self._write_job(job_id, batch)
        for builder in self._builders:
            self._write_builder(builder, batch)
        self._jobs.clear()
        self._builders.clear()

    def _write_job(self, job_id: str, batch: Batch) -> None:
        state = self._book.jobs.get(job_id)
        self._write_place(job_id, state, batch)
        self._write_attempt(job_id, state, batch)
        if state is None:
            self._known.discard(job_id)
            self._saved.pop(job_id, None)
            return
        if job_id not in self._known:
            self._known.add(job_id)
            batch.jobs[job_id] = state.job
            self._serial = batch.submitted[job_id] = state.serial
        if self._saves:
            self._save_standing(job_id, state, batch)

    def _save_standing(self, job_id: str, state: JobState, batch: Batch) -> None:
        """Write what changed about a job, but for what its attempt tells."""
        leader = None if state.leader is None else state.leader.job.id
        mark = (state.job, leader, state.abandoned)
        before = self._saved.get(job_id)
        if before == mark and (state.slot is not None or not state.attempts):
            return
        self._saved[job_id] = mark
        if before is not None and before[0] is not state.job:
            batch.jobs[job_id] = state.job
        batch.standings[job_id] = Standing(
            state.serial,
            state.key,
            state.submitted_at,
            state.estimated_time,
            state.path,
            state.attempts,
            leader,
            state.abandoned,
            state.reason,
            state.failures,
            state.resets,
            state.losses,
        )

    def _write_place(self, job_id: str, state: JobState | None, batch: Batch) -> None:
        waits = state is not None and state.status is JobStatus.WAITING and state.leader is None
        place = self._places.get(job_id)
        member = encode_member(state.key, job_id) if waits and state is not None else None
        if place is not None and place[1] != member:
            batch.waits_no_more(*self._places.pop(job_id))
        if member is not None and state is not None and (place is None or place[1] != member):
            self._places[job_id] = (state.job, member)
            batch.waits(state.job, member)

    def _write_attempt(self, job_id: str, state: JobState | None, batch: Batch) -> None:
        if state is None or state.slot is None:
            if job_id in self._on_builder:
                self._on_builder.discard(job_id)
                batch.no_attempts.append(job_id)
            return
        self._on_builder.add(job_id)
        batch.attempts[job_id] = Attempt(
            job_id,
            state.attempts,
            state.slot.builder.builder.id,
            state.slot.number,
            state.dispatched_at or 0.0,
            state.started_at,
            state.status is JobStatus.CANCELLING,
        )

    def _write_builder(self, builder: str, batch: Batch) -> None:
        state = self._book.builders.get(builder)
        if state is None:
            batch.gone_builders.append(builder)
        else:
            batch.builders[builder] = builder_view(state)


def write_hosts(roster: Roster, batch: Batch) -> None:
    """Add what changed about builder hosts, for a successor."""
    for name in roster.changed:
        host = roster.hosts[name]
        if host.lost:
            batch.gone_hosts.append(name)
            batch.lives.pop(name, None)
        else:
            batch.lives[name] = _life(host)
    roster.changed.clear()


def _life(host: HostState) -> HostLife:
    return HostLife(
        name=host.name,
        life=host.life,
        own=host.own,
        room=host.room,
        pool=host.pool,
        leaving=host.leaving,
        plays=host.plays,
        joined=tuple(host.joined),
        retiring=tuple(host.retiring),
    )
