"""Void and failed attempts: the job is requeued or ends, and the slot is used again.

*Which losses count.* An attempt that is void because its builder was lost, or does not know of it,
counts against its job's ``retries``; a lost builder also against ``max_builders_lost``. A loss that
is *excused* counts against neither: the builder had been asked to leave, and the job only waits
again. The flag has this name from where the loss is noticed to ``give_back``. Excused are

- a container that ended in order: with exit code 0 or 143 (SIGTERM), or with 137 (killed) after it
  had announced its warm shutdown, since then it was only too slow (``DockerBackend._instance``).
  The reconciler gives its builder up, and the message ``GiveUpBuilder`` takes the flag by
  ``Hosts.give_up`` into ``BuilderLost``;
- a host that said that it leaves (``Hosts.hear``);
- what was there before this scheduler, and is not now: a container that it has never heard, and a
  builder of whose host nothing is known. They were stopped with the farm, as far as can be known
  (``Protocol.settle``, ``Protocol.go_on``).

*Judged failures.* Where failures are judged (``max_resets``), an attempt that failed (its job did,
or its builder did not know of it) raises the counts of its job and of its builder. While they are
equal the job is retried; the one with the higher count is to blame: the job fails; or it is retried
elsewhere, and the builder taken out of service once it has ``BUILDER_FAILURE_THRESHOLD`` failures.
Below that nothing is done to it: Launchpad would clean it, and here a builder does that after every
job or never (``Builder.cleans``). A success resets the builder's count to zero. A job that was
being cancelled ends as cancelled, whatever the judgement; its builder is judged nevertheless.
Failed attempts leave nothing to resume, so they are judged as Launchpad judges failures at
dispatch.
"""

from __future__ import annotations

from farm.core.commands import RequeueJob
from farm.core.dispatching.matching import Lane
from farm.core.jobs.cancelling import Canceller
from farm.core.jobs.failure_judgement import Judgement, judge_failure
from farm.core.jobs.giving_up import why_blamed, why_given_up
from farm.core.model import Cause
from farm.core.state.working_state import JobState, JobStatus, Slot


class Requeuer:
    """Requeues the jobs of void attempts, or ends them."""

    def __init__(self, canceller: Canceller) -> None:
        self.canceller = canceller
        self.book, self.dispatcher = canceller.book, canceller.dispatcher

    def void(self, slot: Slot, at: float, reason: str) -> None:
        """Requeue the job of a void attempt and reuse its slot: the builder is still present."""
        state = slot.running
        if self.book.rules.max_resets is not None and state:
            self.judge(state, slot, at, reason)
            return
        lane = self.give_back(slot, at, reason)
        self.canceller.follow(at)
        self.dispatcher.attempt_over(slot, at)
        if lane is not None:
            self.dispatcher.fill_lanes([lane], at)

    def judge(self, state: JobState, slot: Slot, at: float, reason: str) -> None:
        """Judge whether the builder or the job is to blame for a failed attempt."""
        builder = slot.builder
        state.failures += 1
        builder.failures += 1
        judgement = judge_failure(
            builder.failures,
            state.failures,
            retry=False,
            cancelling=state.status is JobStatus.CANCELLING,
            resets=state.resets,
            max_resets=self.book.rules.max_resets,
        )
        reason = why_blamed(reason, state.failures, builder.failures)
        builder.failures = judgement.builder_failures_after
        state.resets += judgement.job_action == "reset"
        if builder_fails := judgement.builder_action == "fail":
            self.dispatcher.take_no_more(builder, at)
            builder.failed = True
        lane = self.give_back(slot, at, reason, judgement=judgement)
        self.canceller.follow(at)
        if lane is not None:
            # before its old slot is free again: another builder is a better test
            self.dispatcher.fill_lanes([lane], at)
        self.dispatcher.attempt_over(slot, at)
        if builder_fails:
            self.dispatcher.look_again(at)

    def give_back(
        self,
        slot: Slot,
        at: float,
        reason: str,
        *,
        excused: bool = False,
        judgement: Judgement | None = None,
    ) -> Lane | None:
        """Requeue the job of a void attempt, or end it; return the lane to fill.

        A requeued job keeps its key, and so its place among the others that wait: what has been
        learned since it was submitted does not move it.

        Args:
            slot: where the attempt ran.
            at: now, farm time.
            reason: why the attempt is void, for people.
            excused: its builder was asked to leave: the job is requeued, and no loss is counted.
            judgement: of its failures (``judge``), which says whether the job is requeued. None: it
                was not judged, and is requeued while the rules' ``retries`` allow it.
        """
        state = slot.running
        if state is None:
            return None
        lane, rules = state.lane, self.book.rules
        if self.dispatcher.watched:
            lane.queue.ended(state, slot, at, completed=False)
        if state.status is JobStatus.CANCELLING:
            self.book.end_all(state, at, "cancelled", state.cause, state.reason)
            return None
        cause = Cause.FAILED
        is_requeued = excused or (judgement is not None and judgement.job_action == "reset")
        if judgement is None and not excused:
            cause = Cause.LOST
            state.losses += 1
            is_requeued = state.losses <= rules.retries
            if 0 < rules.max_builders_lost <= len(state.builders_lost):
                is_requeued = False
                cause = Cause.POISONOUS
            if not is_requeued:
                under = state.builders_lost if cause is Cause.POISONOUS else ()
                reason = why_given_up(reason, state.losses, rules.retries, under)
        if not is_requeued:
            self.book.end_all(state, at, "failed", cause, reason)
            return None
        builder = slot.builder.builder.id
        self.book.out.append(RequeueJob(state.job.id, state.attempts, builder, reason))
        self.dispatcher.wait(state, lane, at)
        return lane
