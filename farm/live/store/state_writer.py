"""Mirrors the scheduler's state in the store: once per batch, only what changed."""

from __future__ import annotations

from fnmatch import fnmatchcase

from farm.core.commands import Command, EndJob, RequestBuilder, RequeueJob
from farm.core.events import DrainRequested, EstimateMade, Event, JobsSubmitted, UndrainRequested
from farm.core.model import Platform
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import builder_record, job_record
from farm.core.state.working_state import JobState, JobStatus
from farm.live.redis.keys import encode_member
from farm.live.store.batch import Batch
from farm.live.store.saved import Try

#: platforms beyond which those are forgotten that were asked for once
MANY_PLATFORMS = 1000


class StateWriter:
    """Collects the jobs and builders changed by a batch of events, and writes their new state."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: released, or blocked by fewer jobs than before
        self._blocked: set[str] = set()
        scheduler.blocked.touched = self._blocked
        self._jobs: dict[str, None] = {}
        self._builders: dict[str, None] = {}
        #: the sort keys of the jobs in the store's pending sets, by platform
        self._places: dict[Platform, dict[str, tuple[float, ...]]] = {}
        #: jobs that are not in the store yet, and the serial of the last one that was new
        self._new: set[str] = set()
        self._serial = 0
        self._on_builder: set[str] = set()
        #: lanes at which unused ones are looked for
        self._many = MANY_PLATFORMS

    @property
    def running(self) -> int:
        """The number of jobs on builders in the store."""
        return len(self._on_builder)

    @property
    def stored(self) -> int:
        """The number of live jobs in the store since the last batch."""
        jobs, dedup = self._scheduler.jobs, self._scheduler.rules.dedup
        return len(jobs) - (sum(state.abandoned for state in jobs.values()) if dedup else 0)

    def touch(self, event: Event) -> None:
        """Note what the event may change (the new state is read after the decisions)."""
        if isinstance(event, JobsSubmitted):
            for job in event.jobs:
                self._jobs[job.id] = None
                self._new.add(job.id)
        elif isinstance(event, DrainRequested | UndrainRequested):
            for builder in self._scheduler.builders:
                if fnmatchcase(builder, event.pattern):
                    self._builders[builder] = None
        elif not isinstance(event, EstimateMade):  # that changes nothing
            self._touch(event)

    def _touch(self, one: Event | Command) -> None:
        """Note the job and the builder that an event or a command names."""
        for name, touched in (("job", self._jobs), ("builder", self._builders)):
            if (found := getattr(one, name, None)) is not None:
                touched[found if isinstance(found, str) else found.id] = None

    def touch_all(self) -> None:
        """Note that every job and builder may have changed."""
        self._jobs.update(dict.fromkeys(self._scheduler.jobs))
        self._builders.update(dict.fromkeys(self._scheduler.builders))

    def forget(self) -> None:
        """Write everything again next time, because the store has lost its data."""
        self._places.clear()
        self._on_builder.clear()
        self._new.update(self._scheduler.jobs)
        self.touch_all()

    def note(self, command: Command, at: float, batch: Batch) -> None:
        """Note what a command given at this farm time changes."""
        if isinstance(command, EndJob):
            self._ended(command, batch)
        elif not isinstance(command, RequestBuilder):  # there is no such builder yet
            self._touch(command)
            if isinstance(command, RequeueJob):
                void = Try(command.attempt, command.builder, at, command.reason)
                batch.tries[command.job].append(void)

    def _ended(self, command: EndJob, batch: Batch) -> None:
        """The job is over."""
        job = command.job
        batch.ended[job.id] = command
        if (key := self._places.get(job.platform, {}).pop(job.id, None)) is not None:
            batch.not_waiting[str(job.platform)].append(encode_member(key, job.id))
        if job.id in self._new:  # it came and went within this batch
            batch.submitted[job.id] = self._serial + 0.5
        self._jobs[job.id] = None

    def write(self, batch: Batch) -> None:
        """Add what changed since the last time to the batch."""
        self._jobs.update(dict.fromkeys(self._scheduler.reorderer.take_rekeyed()))
        self._jobs.update(dict.fromkeys(sorted(self._blocked)))
        self._blocked.clear()
        for job_id in self._jobs:
            self._write_job(job_id, batch)
        for name in self._builders:
            if (builder := self._scheduler.builders.get(name)) is None:
                batch.gone_builders.append(name)
            else:
                batch.builders[name] = builder_record(builder)
        self._jobs.clear()
        self._builders.clear()
        self._new.clear()
        if len(self._scheduler.dispatcher.matching.lanes) > self._many:
            self._forget_platforms(batch)

    def _forget_platforms(self, batch: Batch) -> None:
        """Forget platforms that no builder serves, with their last jobs."""
        matching = self._scheduler.dispatcher.matching
        matching.forget_unused()
        self._many = max(MANY_PLATFORMS, 2 * len(matching.lanes))
        used = {lane.name for lane in matching.lanes}
        for platform in [one for one, places in self._places.items() if str(one) not in used]:
            del self._places[platform]
            batch.gone_platforms.append(str(platform))

    def _write_job(self, job_id: str, batch: Batch) -> None:
        state = self._scheduler.jobs.get(job_id)
        self._write_running(job_id, state, batch)
        if state is None:
            return
        self._write_place(job_id, state, batch)
        if job_id in self._new:
            self._serial = batch.submitted[job_id] = state.serial
        if not state.abandoned:
            batch.jobs[job_id] = job_record(state)

    def _write_place(self, job_id: str, state: JobState, batch: Batch) -> None:
        places = self._places.setdefault(state.job.platform, {})
        waits = state.status is JobStatus.WAITING and state.leader is None
        was, key = places.get(job_id), state.key if waits else None
        if was == key:
            return
        platform = str(state.job.platform)
        if was is not None:
            batch.not_waiting[platform].append(encode_member(places.pop(job_id), job_id))
        if key is not None:
            places[job_id] = key
            batch.waiting[platform][encode_member(key, job_id)] = 0.0

    def _write_running(self, job_id: str, state: JobState | None, batch: Batch) -> None:
        if state is None or state.slot is None:
            if job_id in self._on_builder:
                self._on_builder.discard(job_id)
                batch.not_running.append(job_id)
            return
        self._on_builder.add(job_id)
        batch.running[job_id] = state.dispatched_at or 0.0
