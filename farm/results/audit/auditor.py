"""An independent check of every run: facts and orders must make sense together.

The auditor rebuilds the farm from facts and orders alone; it shares nothing with the scheduler
but the values that pass between it and its world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from farm.core.commands import (
    IGNORED,
    CancelJob,
    Command,
    DrainBuilder,
    EndJob,
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
from farm.results.audit.picture import AuditedBuilder, AuditedJob, Occupant


class Auditor:
    """Observer that raises InvariantError at the first contradiction, with the job's history.

    Slots: never over-filled, never given away while being cleaned, only on builders that are
    there, take jobs and can run the platform. Jobs: known, waiting when dispatched, attempts
    counted by one, ended exactly once, requeued only when a fact voided the attempt, never left
    hanging by one. Time: never backwards. Stale facts (IGNORED) change nothing.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, AuditedJob] = {}
        #: the builders that are there
        self.builders: dict[str, AuditedBuilder] = {}
        #: the builders that are requested and not there
        self.requested: set[str] = set()
        #: jobs that hold no slot and have not ended
        self.waiting = 0
        self._event: Event | None = None
        #: jobs whose attempt the fact in hand ended or voided
        self._unsettled: list[str] = []
        self._facts: dict[type[Event], Callable[[Any], None]] = {
            JobsSubmitted: self._submitted,
            JobStarted: self._started,
            JobFinished: self._attempt_over,
            AttemptLost: self._attempt_over,
            BuilderJoined: self._joined,
            BuilderRetired: self._gone,
            BuilderLost: self._gone,
            SlotCleaned: self._cleaned,
            DrainRequested: self._drain,
            UndrainRequested: self._undrain,
        }
        self._orders: dict[type[Command], Callable[[Any], None]] = {
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
        """Check one fact and the orders that it led to. Raises InvariantError."""
        before, self._event = self._event, event
        if before is not None and event.at < before.at:
            self._fail(f"time went backwards: {event.at} after {before.at}")
        if commands is IGNORED:
            return
        self._unsettled.clear()
        take = self._facts.get(type(event))
        if take is not None:
            take(event)
        for command in commands:
            self._orders[type(command)](command)
        for job in self._unsettled:
            if self.jobs[job].hangs:
                self._fail("its attempt is over, yet it was neither ended nor requeued", job)
        if self.waiting < 0:
            self._fail(f"{self.waiting} jobs are waiting")

    def close(self, *, expect_all_ended: bool = True) -> None:
        """Check a run that is over: with ``expect_all_ended`` no job may be left."""
        left = sorted(job for job, told in self.jobs.items() if not told.ended)
        if expect_all_ended and left:
            some = ", ".join(left[:10]) + (", …" if len(left) > 10 else "")
            self._fail(f"{len(left)} of {len(self.jobs)} jobs never ended: {some}", left[0])

    # --- facts ------------------------------------------------------------------------------

    def _submitted(self, event: JobsSubmitted) -> None:
        for job in event.jobs:
            if job.id in self.jobs:
                continue  # handed in twice: the scheduler may leave it out, not end it twice
            self.jobs[job.id] = AuditedJob(job, event.at)
            self.waiting += 1

    def _started(self, event: JobStarted) -> None:
        self._current(event).note(event.at, event)

    def _attempt_over(self, event: JobFinished | AttemptLost) -> None:
        job = self._current(event)
        job.note(event.at, event)
        builder = self.builders[event.builder]
        builder.free(job.slot, to_be_cleaned=builder.builder.cleans)
        self._unsettle(event.job)

    def _joined(self, event: BuilderJoined) -> None:
        if event.builder.id in self.builders:
            self._fail(f"builder {event.builder.id!r} joined twice")
        self.requested.discard(event.builder.id)
        self.builders[event.builder.id] = AuditedBuilder(event.builder)

    def _gone(self, event: BuilderRetired | BuilderLost) -> None:
        self.requested.discard(event.builder)
        builder = self.builders.pop(event.builder, None)
        if builder is not None:
            for job, _ in builder.occupants():
                self.jobs[job].note(event.at, event)
                self._unsettle(job)

    def _cleaned(self, event: SlotCleaned) -> None:
        builder = self.builders.get(event.builder)
        if builder is None or event.slot not in builder.cleaning:
            self._fail(f"slot {event.slot} of {event.builder!r} was not being cleaned")
        builder.cleaning.remove(event.slot)

    def _drain(self, event: DrainRequested) -> None:
        for builder in self.builders.values():
            if builder.is_named(event.pattern):
                builder.draining = True
                builder.leaving = builder.leaving or event.retire

    def _undrain(self, event: UndrainRequested) -> None:
        for builder in self.builders.values():
            if builder.is_named(event.pattern):
                builder.draining = False

    # --- orders -----------------------------------------------------------------------------

    def _dispatch(self, order: StartJob) -> None:
        job = self._known(order.job.id, order)
        if job.place != "waiting":
            self._fail("dispatched while not waiting", order.job.id)
        if job.ended and not self._serves_others(job):
            self._fail("dispatched though it has ended and serves nobody", order.job.id)
        if order.attempt != job.attempts + 1:
            self._fail(f"attempt {order.attempt} follows attempt {job.attempts}", order.job.id)
        builder = self.builders.get(order.builder)
        if builder is None:
            self._fail(f"dispatched to {order.builder!r}, which is not there", order.job.id)
        if (why := builder.refuses(job.job.platform, order.slot)) is not None:
            self._fail(f"dispatched to {order.builder!r}, {why}", order.job.id)
        builder.slots[order.slot] = Occupant(order.job.id, order.attempt)
        job.place, job.builder, job.slot = "placed", order.builder, order.slot
        job.attempts = order.attempt
        self.waiting -= 1

    def _cancel(self, order: CancelJob) -> None:
        job = self._known(order.job, order)
        if (job.place, job.attempts, job.builder) != ("placed", order.attempt, order.builder):
            self._fail("told to stop an attempt that is not running", order.job)

    def _requeue(self, order: RequeueJob) -> None:
        job = self._known(order.job, order)
        if job.place != "nowhere" or order.job not in self._unsettled:
            self._fail("requeued, though no fact voided its attempt", order.job)
        if (order.attempt, order.builder) != (job.attempts, job.builder):
            self._fail("requeued for an attempt that is not its last", order.job)
        job.place = "waiting"
        self.waiting += 1

    def _end(self, order: EndJob) -> None:
        name = order.job.id
        job = self._known(name, order)
        if job.ended:
            self._fail("ended twice", name)
        job.ended = True
        if job.place == "waiting":
            job.place = "nowhere"
            self.waiting -= 1
        elif job.place == "placed" and not (order.outcome == "cancelled" and job.job.action):
            # an execution that serves others as well outlives the job that led it
            self._fail("ended while its attempt is running", name)
        if (why := self._false_story(order, job)) is not None:
            self._fail(f"its end tells {why}", name)

    def _request(self, order: RequestBuilder) -> None:
        if order.builder.id in self.requested or order.builder.id in self.builders:
            self._fail(f"builder {order.builder.id!r} requested twice")
        self.requested.add(order.builder.id)

    def _leave(self, order: DrainBuilder) -> None:
        builder = self.builders.get(order.builder)
        if builder is None:
            self._fail(f"builder {order.builder!r} told to drain, though it is not there")
        builder.draining = builder.leaving = True

    def _lose(self, order: LoseBuilder) -> None:
        if order.builder not in self.builders:
            self._fail(f"builder {order.builder!r} is to be lost, though it is not there")

    def _retire(self, order: RetireBuilder) -> None:
        builder = self.builders.get(order.builder)
        if builder is None or builder.slots:
            state = "gone" if builder is None else f"busy with {list(builder.occupants())}"
            self._fail(f"builder {order.builder!r} told to go, though it is {state}")
        builder.leaving = True

    # --- looking things up ------------------------------------------------------------------

    def _false_story(self, end: EndJob, job: AuditedJob) -> str | None:
        event = self._event
        if end.served_by is None and end.attempts != job.attempts:
            return f"{end.attempts} attempts; there were {job.attempts}"
        if end.submitted_at != job.submitted_at:
            return f"submission at {end.submitted_at}; it was at {job.submitted_at}"
        if event is not None and end.finished_at != event.at:
            return f"an end at {end.finished_at}; the fact was at {event.at}"
        if end.outcome == "succeeded" and not (
            isinstance(event, JobFinished)
            and event.outcome == "succeeded"
            and event.job == (end.served_by or end.job.id)
        ):
            return "success; no builder reported it"
        instants = [
            at for at in (end.dispatched_at, end.started_at, end.finished_at) if at is not None
        ]
        if instants != sorted(instants):
            return f"instants out of order: {instants}"
        return None

    def _serves_others(self, job: AuditedJob) -> bool:
        action = job.job.action
        others = self.jobs.values()
        return action is not None and any(o.job.action == action and not o.ended for o in others)

    def _known(self, name: str, order: Command) -> AuditedJob:
        if (job := self.jobs.get(name)) is None:
            self._fail(f"job {name!r} was never submitted: {order}")
        assert self._event is not None  # noqa: S101 - orders follow facts
        job.note(self._event.at, order)
        return job

    def _current(self, event: JobStarted | JobFinished | AttemptLost) -> AuditedJob:
        """Return the job of a report that was taken in: it must be of the running attempt."""
        job = self.jobs.get(event.job)
        if job is None:
            self._fail(f"a report about job {event.job!r}, never submitted, was taken in")
        if (job.place, job.attempts, job.builder) != ("placed", event.attempt, event.builder):
            self._fail("a stale report was taken in", event.job)
        return job

    def _unsettle(self, name: str) -> None:
        self.jobs[name].place = "nowhere"
        self._unsettled.append(name)

    def _fail(self, why: str, job: str | None = None) -> NoReturn:
        lines = [why if job is None else f"job {job!r}: {why}", f"  at the fact: {self._event}"]
        if job is not None and (told := self.jobs.get(job)) is not None:
            lines.append(f"  submitted at {told.submitted_at}: {told.job}")
            lines.extend(f"  at {at}: {value}" for at, value in told.history)
        raise InvariantError("\n".join(lines))
