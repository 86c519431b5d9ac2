"""Cancelling: waiting jobs end immediately, running ones are stopped by their builders."""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.commands import CancelJob, EndJob
from farm.core.jobs.blocking import BlockedJobs
from farm.core.jobs.book import JobBook
from farm.core.model import Cause
from farm.core.state.working_state import JobState, JobStatus

_ARRIVING, _BLOCKED = JobStatus.ARRIVING, JobStatus.BLOCKED
_CANCELLING = JobStatus.CANCELLING


class Canceller:
    """Cancels live jobs."""

    def __init__(self, book: JobBook, blocked: BlockedJobs) -> None:
        self.book = book
        self.blocked = blocked
        self.dispatcher = book.dispatcher
        self.jobs = book.by_id

    def cancel(self, states: Iterable[JobState], at: float, cause: Cause, reason: str) -> None:
        """End waiting and blocked jobs immediately; ask builders to stop running ones."""
        for state in states:
            if state.job.id not in self.jobs or state.status is _CANCELLING:
                continue
            if state.abandoned:
                continue  # cancelled before; its execution continues for others
            if (leader := state.leader) is not None:
                self.book.leave(state, leader, at)
                self.book.end(state, at, "cancelled", cause, reason)
                if leader.abandoned and not leader.followers:
                    self._drop(leader, at)
            elif state.followers:
                self.book.hand_over(state, at, cause, reason)
            elif state.status is _BLOCKED:
                self.blocked.forget(state)
                self.book.end(state, at, "cancelled", cause, reason)
            elif state.status is _ARRIVING:
                self.book.end(state, at, "cancelled", cause, reason)
            elif state.slot is None:
                self.dispatcher.unwait(state, state.lane, at)
                self.book.end(state, at, "cancelled", cause, reason)
            else:
                self._stop(state, cause, reason)

    def fail_fast(self, at: float) -> None:
        """Cancel the rest of each matrix with a job that failed just now, if the rules say so.

        Which failed is read from the commands of this event. So it is called once the ends are
        among these, and before the slots are offered again, which the rest would take.
        """
        if not self.book.rules.fail_fast:
            return
        for command in tuple(self.book.out):
            if isinstance(command, EndJob) and command.outcome == "failed" and command.job.matrix:
                rest = self.book.of_matrix(command.job.matrix)
                why = f"fail-fast: {command.job.id} failed"
                self.cancel(rest, at, Cause.FAIL_FAST, why)

    def follow(self, at: float) -> None:
        """Do what follows from the ends of jobs, before their slots are offered again."""
        self.fail_fast(at)
        if self.blocked.active:
            self.blocked.follow(at)

    def _drop(self, leader: JobState, at: float) -> None:
        """Abandon an execution that serves no job any more, running or waiting."""
        if leader.slot is None:
            self.dispatcher.unwait(leader, leader.lane, at)
            self.book.forget(leader)
        else:
            self._stop(leader, Cause.REQUESTED, "no job needs it any more")

    def _stop(self, state: JobState, cause: Cause, reason: str) -> None:
        """Ask the builder to stop a running job."""
        if state.slot is not None:
            state.status = _CANCELLING
            state.cause, state.reason = cause, reason
            builder = state.slot.builder.builder.id
            self.book.out.append(CancelJob(state.job.id, state.attempts, builder, reason))
