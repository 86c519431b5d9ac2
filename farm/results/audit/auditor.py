"""An independent check of every run: events and commands must be consistent.

The auditor rebuilds the farm from events and commands alone; it shares nothing with the scheduler
except the values that are passed between it and its world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NoReturn

import msgspec

from farm.core.commands import (
    CancelJob,
    Command,
    DrainBuilder,
    EndJob,
    Ignored,
    LoseBuilder,
    RequestBuilder,
    RequeueJob,
    RetireBuilder,
    SetAlarm,
    StartJob,
)
from farm.core.errors import InvariantError
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
    SlotCleaned,
    UndrainRequested,
)
from farm.core.jobs.groups import group_of, mode_of
from farm.core.jobs.needs import needs_of
from farm.core.model import Builder, Cause, Job, Outcome, Platform, run_of

Place = Literal["waiting", "placed", "nowhere"]


class AuditedJob(msgspec.Struct):
    """What events and commands say about a job.

    A job is ``nowhere`` from the end of its attempt until it is requeued, and after its end.
    """

    job: Job
    submitted_at: float
    place: Place = "waiting"
    #: how it ended
    outcome: Outcome | None = None
    attempts: int = 0
    builder: str = ""
    slot: int = 0
    history: list[tuple[float, Event | Command]] = []
    #: the jobs it needs that have not ended, and whether one that was to fail has failed
    unmet: set[str] = set()
    failure_met: bool = False
    #: the needs can no longer be met
    hopeless: bool = False
    #: from when it may be dispatched; None: its needs have not been met
    free_at: float | None = None
    #: that was so in the very event that told it; else an alarm may be late
    is_free_at_once: bool = False
    #: the newer run that cancels it; empty: none does
    superseded_by: str = ""
    #: its builder was asked to stop it
    is_stopping: bool = False

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.outcome is not None

    def holds(self, about: JobStarted | JobFinished | AttemptLost | CancelJob) -> bool:
        """Return whether this attempt is the one that holds a slot."""
        running = (self.place, self.attempts, self.builder)
        return running == ("placed", about.attempt, about.builder)


class AuditedBuilder(msgspec.Struct):
    """What events and commands say about a present builder."""

    builder: Builder
    #: the holders of slots, by slot number; free slots are missing
    slots: dict[int, StartJob] = {}
    cleaning: set[int] = set()
    draining: bool = False
    #: it is being retired: draining cannot be undone
    leaving: bool = False
    #: attempts dispatched to it so far
    used: int = 0

    def refuses(self, platform: Platform, slot: int) -> str | None:
        """Return why a job of this platform may not be put into that slot; None if it may."""
        if not self.builder.takes_jobs:
            return "which takes no jobs"
        if self.draining or self.leaving:
            return "which is draining"
        if (uses := self.builder.uses) is not None and self.used >= uses:
            return f"whose uses ({uses}) are all taken"
        if not self.builder.can_run(platform):
            return f"which cannot run {platform}"
        if not 0 <= slot < self.builder.slots:
            return f"which has no slot {slot}"
        if slot in self.slots:
            return f"whose slot {slot} holds {self.slots[slot].job.id!r}"
        return f"whose slot {slot} is being cleaned" if slot in self.cleaning else None


class AuditedGroup(msgspec.Struct):
    """What events and commands say about a concurrency group."""

    #: those that have not ended, by id
    live: dict[str, AuditedJob] = {}
    #: the serial of the first live job of each run that has any
    began: dict[str, int] = {}
    #: how many live jobs each run has, and how many of them go by ``latest``
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    latest_counts: Counter[str] = msgspec.field(default_factory=Counter)
    #: of those that have been dispatched: the jobs with a limit, and the runs of ``latest``
    inside: dict[str, Job] = {}
    placed_runs: set[str] = set()

    def enter(self, audited: AuditedJob, serial: int) -> None:
        """Add a job that was submitted."""
        self.live[audited.job.id] = audited
        run = run_of(audited.job)
        self.began.setdefault(run, serial)
        self.counts[run] += 1
        self.latest_counts[run] += mode_of(audited.job) == "latest"

    def leave(self, job: Job) -> None:
        """Remove a job that has ended."""
        self.live.pop(job.id, None)
        self.inside.pop(job.id, None)
        run = run_of(job)
        self.counts[run] -= 1
        self.latest_counts[run] -= mode_of(job) == "latest"
        if not self.latest_counts[run]:
            self.placed_runs.discard(run)
        if not self.counts[run]:
            del self.began[run], self.counts[run], self.latest_counts[run]

    def refuses(self, job: Job) -> str | None:
        """Return why a job had no place when it was dispatched; None if it had one."""
        group = group_of(job.group or "")
        if group.mode == "limit":
            self.inside[job.id] = job
            limits = sorted(group_of(member.group or "").limit for member in self.inside.values())
            if any(limit < place for place, limit in enumerate(limits, 1)):
                return f"as one of {len(limits)} of its group {group.name!r}"
        elif group.mode == "latest":
            self.placed_runs.add(run_of(job))
            if len(self.placed_runs) > 1:
                return f"beside another run of its group {group.name!r}"
        return None

    def supersede(self) -> list[AuditedJob]:
        """Note which jobs a newer run cancels, but for those that are stopped; return them."""
        runs = {
            run_of(member.job)
            for member in self.live.values()
            if mode_of(member.job) == "cancel" and not member.hopeless
        }
        newest = max(runs, key=self.began.__getitem__, default=None)
        if newest is None:
            return []
        older = [
            member
            for member in self.live.values()
            if self.began[run_of(member.job)] < self.began[newest] and not member.is_stopping
        ]
        for member in older:
            member.superseded_by = newest
        return older

    def waiting_runs(self, than: Job, at: float) -> set[str]:
        """Return the runs of ``latest`` that wait and are newer than that of a job."""
        runs = {
            run_of(member.job)
            for member in self.live.values()
            if mode_of(member.job) == "latest"
            and member.attempts == 0
            and member.free_at is not None
            and member.free_at <= at
        }
        began = self.began[run_of(than)]
        return {run for run in runs - self.placed_runs if self.began[run] > began}


class Auditor:
    """Observer that raises InvariantError at the first inconsistency, with the job's history.

    Slots: never over-filled, never assigned while being cleaned, only on builders that are
    present, take jobs, have uses left and can run the platform. Jobs: known, waiting when
    dispatched, attempts numbered consecutively, ended exactly once, requeued only when an event
    voided the attempt, never forgotten. Needs: no job is dispatched before its own are met, one
    whose needs can no longer be met ends in that very event, and no other is skipped. Groups: no
    more jobs of one at once than it allows, where each job says the same of it; what a newer run
    cancels ends or is stopped when that comes, and nothing else ends as superseded. Time: never
    backwards. Stale events (``Ignored``) change nothing.
    """

    def __init__(self) -> None:
        #: events seen so far
        self.events = 0
        self.jobs: dict[str, AuditedJob] = {}
        #: the present builders
        self.builders: dict[str, AuditedBuilder] = {}
        #: the builders that are requested and not present
        self.requested: set[str] = set()
        #: jobs that hold no slot and have not ended
        self.waiting = 0
        self._event: Event | None = None
        #: jobs whose attempt the current event ended or voided
        self._unsettled: list[str] = []
        #: those that need each job, by its id
        self._dependents: dict[str, list[AuditedJob]] = {}
        #: jobs whose needs can no longer be met since the current event
        self._hopeless: list[AuditedJob] = []
        self._groups: dict[str, AuditedGroup] = {}
        #: jobs that a newer run cancels since the current event
        self._superseded: list[AuditedJob] = []
        self._event_checks: dict[type[Event], Callable[[Any], object]] = {
            JobsSubmitted: self._submitted,
            JobStarted: self._current,
            JobFinished: self._attempt_over,
            AttemptLost: self._attempt_over,
            BuilderJoined: self._joined,
            BuilderRetired: self._gone,
            BuilderLost: self._gone,
            SlotCleaned: self._cleaned,
            DrainRequested: self._drain,
            UndrainRequested: self._undrain,
        }
        self._command_checks: dict[type[Command], Callable[[Any], None]] = {
            StartJob: self._dispatch,
            CancelJob: self._cancel,
            RequeueJob: self._requeue,
            EndJob: self._end,
            RequestBuilder: self._request,
            DrainBuilder: self._leave,
            RetireBuilder: self._retire,
            LoseBuilder: self._lose,
            SetAlarm: lambda _: None,
        }

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Check one event and the resulting commands. Raises InvariantError."""
        self.events += 1
        before, self._event = self._event, event
        if before is not None and event.at < before.at:
            self._fail(f"time went backwards: {event.at} after {before.at}")
        if type(commands) is Ignored:
            return
        self._unsettled.clear()
        take = self._event_checks.get(type(event))
        if take is not None:
            take(event)
        for command in commands:
            self._command_checks[type(command)](command)
        for job in self._unsettled:
            if self.jobs[job].place == "nowhere" and not self.jobs[job].ended:
                self._fail("its attempt is over, yet it was neither ended nor requeued", job)
        for hopeless in self._hopeless:
            if not hopeless.ended:
                self._fail("its needs can no longer be met, yet it has not ended", hopeless.job.id)
        self._hopeless.clear()
        for older in self._superseded:
            if not older.ended and not older.is_stopping:
                why = f"run {older.superseded_by!r} supersedes it, yet it was not cancelled"
                self._fail(why, older.job.id)
        self._superseded.clear()
        if self.waiting < 0:
            self._fail(f"{self.waiting} jobs are waiting")

    def close(self, *, expect_all_ended: bool = True) -> None:
        """Check a run that is over: with ``expect_all_ended`` no job may be left."""
        left = sorted(job for job, audited in self.jobs.items() if not audited.ended)
        if expect_all_ended and left:
            some = ", ".join(left[:10]) + (", …" if len(left) > 10 else "")
            self._fail(f"{len(left)} of {len(self.jobs)} jobs never ended: {some}", left[0])

    # --- events ------------------------------------------------------------------------------

    def _submitted(self, event: JobsSubmitted) -> None:
        needing: list[AuditedJob] = []
        cancelling: dict[str, AuditedGroup] = {}
        for job in event.jobs:
            if job.id in self.jobs:
                continue  # submitted twice: the scheduler may ignore it, but not end it twice
            self.jobs[job.id] = AuditedJob(job, event.at)
            self.waiting += 1
            if job.group is not None:
                name, mode, _ = group_of(job.group)
                group = self._groups.setdefault(name, AuditedGroup())
                group.enter(self.jobs[job.id], len(self.jobs))
                if mode == "cancel":
                    cancelling[name] = group
            if job.needs:
                needing.append(self.jobs[job.id])
            else:
                self.jobs[job.id].free_at = event.at
        for audited in needing:
            self._block(audited, event)
        for group in cancelling.values():
            self._superseded += group.supersede()

    def _block(self, audited: AuditedJob, event: JobsSubmitted) -> None:
        """Note what a job needs, and how that has ended already."""
        over: dict[str, Outcome] = {}
        for need in needs_of(audited.job):
            needed = self.jobs.get(need.job)
            given = event.ended.get(need.job)
            if needed is None and given is None:
                self._fail(f"needs {need.job!r}, which was never submitted", audited.job.id)
            if needed is not None and given != needed.outcome:
                how = needed.outcome or "has not ended"
                self._fail(f"the event has that {need.job!r} {given}; it {how}", audited.job.id)
            if given is None:
                audited.unmet.add(need.job)
                self._dependents.setdefault(need.job, []).append(audited)
            else:
                over[need.job] = given
        self._met(audited, over, event.at)
        if audited.free_at == event.at:  # never blocked: it is as any job that arrives
            audited.free_at = audited.job.arrival(event.at)

    def _met(self, audited: AuditedJob, over: Mapping[str, Outcome], at: float) -> None:
        """Note how some jobs ended that this one needs."""
        job = audited.job
        audited.unmet -= over.keys()
        hoped = {need.job for need in needs_of(job) if need.condition == "failed"}
        audited.failure_met |= any(over.get(name) == "failed" for name in hoped)
        denied = any(
            need.condition == "succeeded" and over.get(need.job, "succeeded") != "succeeded"
            for need in needs_of(job)
        )
        if denied or (hoped and not audited.failure_met and not hoped & audited.unmet):
            audited.hopeless = True
            self._hopeless.append(audited)
        elif not audited.unmet:
            audited.free_at = max(at + job.needs_delay, job.arrival(audited.submitted_at))
            audited.is_free_at_once = audited.free_at <= at

    def _attempt_over(self, event: JobFinished | AttemptLost) -> None:
        slot, builder = self._current(event).slot, self.builders[event.builder]
        del builder.slots[slot]
        if builder.builder.cleans:
            builder.cleaning.add(slot)
        self._unsettle(event.job)

    def _joined(self, event: BuilderJoined) -> None:
        if event.builder.id in self.builders:
            self._fail(f"builder {event.builder.id!r} joined twice")
        self.requested.discard(event.builder.id)
        builder = self.builders[event.builder.id] = AuditedBuilder(event.builder)
        if event.builder.claims:
            builder.cleaning.update(range(event.builder.slots))

    def _gone(self, event: BuilderRetired | BuilderLost) -> None:
        self.requested.discard(event.builder)
        builder = self.builders.pop(event.builder, None)
        for held in [] if builder is None else builder.slots.values():
            self.jobs[held.job.id].history.append((event.at, event))
            self._unsettle(held.job.id)

    def _cleaned(self, event: SlotCleaned) -> None:
        builder = self.builders.get(event.builder)
        if builder is None or event.slot not in builder.cleaning:
            self._fail(f"slot {event.slot} of {event.builder!r} was not being cleaned")
        builder.cleaning.remove(event.slot)

    def _drain(self, event: DrainRequested) -> None:
        for builder in self._named(event.pattern):
            builder.draining = True
            builder.leaving |= event.retire

    def _undrain(self, event: UndrainRequested) -> None:
        for builder in self._named(event.pattern):
            builder.draining = False

    # --- commands -----------------------------------------------------------------------------

    def _dispatch(self, command: StartJob) -> None:
        job = self._known(command.job.id, command)
        if job.place != "waiting":
            self._fail("dispatched while not waiting", command.job.id)
        if job.ended and not self._serves_others(job):
            self._fail("dispatched though it has ended and serves no other job", command.job.id)
        if job.free_at is None or job.free_at > self._now:
            wanted = ", ".join(sorted(job.unmet)) or f"its delay until {job.free_at}"
            self._fail(f"dispatched though it waits for {wanted}", command.job.id)
        if command.job.group is not None and not job.ended:
            group = self._groups[group_of(job.job.group or "").name]
            if (why := group.refuses(job.job)) is not None:
                self._fail(f"dispatched {why}", command.job.id)
        if command.attempt != job.attempts + 1:
            self._fail(f"attempt {command.attempt} follows attempt {job.attempts}", command.job.id)
        builder = self.builders.get(command.builder)
        if builder is None:
            self._fail(f"dispatched to {command.builder!r}, which is not present", command.job.id)
        if (why := builder.refuses(job.job.platform, command.slot)) is not None:
            self._fail(f"dispatched to {command.builder!r}, {why}", command.job.id)
        builder.slots[command.slot] = command
        builder.used += 1
        job.place, job.builder, job.slot = "placed", command.builder, command.slot
        job.attempts = command.attempt
        self.waiting -= 1

    def _cancel(self, command: CancelJob) -> None:
        job = self._known(command.job, command)
        if not job.holds(command):
            self._fail("told to stop an attempt that is not running", command.job)
        job.is_stopping = True

    def _requeue(self, command: RequeueJob) -> None:
        job = self._known(command.job, command)
        if job.place != "nowhere" or command.job not in self._unsettled:
            self._fail("requeued, though no event voided its attempt", command.job)
        if (command.attempt, command.builder) != (job.attempts, job.builder):
            self._fail("requeued for an attempt that is not its last", command.job)
        job.place, job.is_stopping = "waiting", False
        self.waiting += 1

    def _end(self, command: EndJob) -> None:
        name = command.job.id
        job = self._known(name, command)
        if job.ended:
            self._fail("ended twice", name)
        job.outcome = command.outcome
        if command.cause is Cause.SKIPPED and not (job.hopeless and job.outcome == "cancelled"):
            self._fail("skipped, though its needs can be met", name)
        if command.job.group is not None:
            self._leave_group(command, job)
        for dependent in self._dependents.pop(name, ()):
            if not dependent.ended and not dependent.hopeless:
                self._met(dependent, {name: command.outcome}, self._now)
        if job.place == "waiting":
            job.place = "nowhere"
            self.waiting -= 1
        elif job.place == "placed" and not (command.outcome == "cancelled" and job.job.action):
            # an execution that serves others as well outlives the job that led it
            self._fail("ended while its attempt is running", name)
        if (why := self._false_story(command, job)) is not None:
            self._fail(f"its end says {why}", name)

    def _leave_group(self, command: EndJob, job: AuditedJob) -> None:
        """Check that a job of a group ended for a newer run only where that supersedes it."""
        group = self._groups[group_of(job.job.group or "").name]
        if command.cause is Cause.SUPERSEDED:
            by = {job.superseded_by} if job.superseded_by else self._waiting_runs(group, job)
            reasons = [f"superseded by {run}" for run in sorted(by)]
            if command.reason.startswith("superseded by ") and command.reason not in reasons:
                self._fail(f"{command.reason}; it was {' or '.join(reasons)}", command.job.id)
            if command.outcome != "cancelled":
                self._fail(f"superseded, and {command.outcome}", command.job.id)
        group.leave(job.job)

    def _waiting_runs(self, group: AuditedGroup, job: AuditedJob) -> set[str]:
        """Return the newer runs of ``latest`` that may supersede a job, as all of them wait."""
        newer = group.waiting_runs(job.job, self._now)
        if mode_of(job.job) != "latest" or not newer:
            self._fail("superseded, though no newer run of its group cancels it", job.job.id)
        if job.attempts or run_of(job.job) in group.placed_runs:
            self._fail("superseded, though its run has the place of its group", job.job.id)
        return newer

    def _request(self, command: RequestBuilder) -> None:
        if command.builder.id in self.requested or command.builder.id in self.builders:
            self._fail(f"builder {command.builder.id!r} requested twice")
        self.requested.add(command.builder.id)

    def _leave(self, command: DrainBuilder) -> None:
        builder = self.builders.get(command.builder)
        if builder is None:
            self._fail(f"builder {command.builder!r} drained, though it is not present")
        builder.draining = builder.leaving = True

    def _lose(self, command: LoseBuilder) -> None:
        if command.builder not in self.builders:
            self._fail(f"builder {command.builder!r} lost on purpose, though it is not present")

    def _retire(self, command: RetireBuilder) -> None:
        builder = self.builders.get(command.builder)
        if builder is None or builder.slots:
            held = [] if builder is None else [one.job.id for one in builder.slots.values()]
            state = "gone" if builder is None else f"busy with {held}"
            self._fail(f"builder {command.builder!r} told to go, though it is {state}")
        builder.leaving = True

    # --- look-up ----------------------------------------------------------------------------

    def _false_story(self, end: EndJob, job: AuditedJob) -> str | None:
        event = self._event
        if end.served_by is None and end.attempts != job.attempts:
            return f"{end.attempts} attempts; there were {job.attempts}"
        if end.submitted_at != job.submitted_at:
            return f"submission at {end.submitted_at}; it was at {job.submitted_at}"
        if event is not None and end.finished_at != event.at:
            return f"an end at {end.finished_at}; the event was at {event.at}"
        if end.outcome == "succeeded" and not (
            isinstance(event, JobFinished)
            and event.outcome == "succeeded"
            and event.job == (end.served_by or end.job.id)
        ):
            return "success; no builder reported it"
        if (why := self._false_release(end, job)) is not None:
            return why
        every = (end.dispatched_at, end.started_at, end.finished_at)
        instants = [at for at in every if at is not None]
        return f"instants out of order: {instants}" if instants != sorted(instants) else None

    def _false_release(self, end: EndJob, job: AuditedJob) -> str | None:
        free_at = job.free_at
        if not job.job.needs and (end.released_at is None or job.job.group is None):
            return None if end.released_at is None else "a release; it needs no other job"
        if not job.job.needs and end.released_at == job.job.arrival(job.submitted_at):
            return None  # its group had a place at once
        is_exact = job.is_free_at_once and job.job.group is None
        if end.released_at is None:
            ran = end.outcome != "cancelled" or end.attempts > 0
            if not ran and is_exact and free_at is not None and free_at < end.finished_at:
                return f"that it was never released; its needs were met at {free_at}"
            return "that it was never released, and that it ran" if ran else None
        if is_exact and end.released_at != free_at:
            return f"a release at {end.released_at}; its needs were met at {free_at}"
        if free_at is None or not min(free_at, end.finished_at) <= end.released_at:
            return f"a release at {end.released_at}; its needs were met at {free_at}"
        late = end.released_at > (end.dispatched_at or end.finished_at)
        if end.served_by is None and late:
            return f"a release at {end.released_at}, after its dispatch"
        return None

    @property
    def _now(self) -> float:
        return 0.0 if self._event is None else self._event.at

    def _named(self, pattern: str) -> Iterator[AuditedBuilder]:
        """Yield the builders whose ids match the shell pattern."""
        return (one for name, one in self.builders.items() if fnmatchcase(name, pattern))

    def _serves_others(self, job: AuditedJob) -> bool:
        action = job.job.action
        others = self.jobs.values()
        return action is not None and any(o.job.action == action and not o.ended for o in others)

    def _known(self, name: str, command: Command) -> AuditedJob:
        if (job := self.jobs.get(name)) is None:
            self._fail(f"job {name!r} was never submitted: {command}")
        if self._event is None:
            self._fail(f"a command that no event led to: {command}")
        job.history.append((self._event.at, command))
        return job

    def _current(self, event: JobStarted | JobFinished | AttemptLost) -> AuditedJob:
        """Note a report that was accepted, which must be about the job's running attempt."""
        job = self.jobs.get(event.job)
        if job is None:
            self._fail(f"a report about job {event.job!r}, never submitted, was accepted")
        if not job.holds(event):
            self._fail("a stale report was accepted", event.job)
        job.history.append((event.at, event))
        return job

    def _unsettle(self, name: str) -> None:
        self.jobs[name].place = "nowhere"
        self._unsettled.append(name)

    def _fail(self, why: str, job: str | None = None) -> NoReturn:
        lines = [why if job is None else f"job {job!r}: {why}", f"  at the event: {self._event}"]
        if job is not None and (audited := self.jobs.get(job)) is not None:
            lines.append(f"  submitted at {audited.submitted_at}: {audited.job}")
            lines.extend(f"  at {at}: {value}" for at, value in audited.history)
        raise InvariantError("\n".join(lines))
