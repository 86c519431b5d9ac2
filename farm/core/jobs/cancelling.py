"""Cancelling: ends waiting jobs at once and tells the builders of running ones to stop."""

from __future__ import annotations

from collections.abc import Iterable

from farm.core.commands import FAIL_FAST, CancelJob, Command, EndJob
from farm.core.dispatching.dispatcher import Dispatcher
from farm.core.jobs.book import JobBook
from farm.core.state import JobState, JobStatus

_CANCELLING = JobStatus.CANCELLING


class Canceller:
    """Works on the book of live jobs and on the queues."""

    def __init__(self, book: JobBook, dispatcher: Dispatcher) -> None:
        self.book = book
        self.dispatcher = dispatcher
        self.jobs = book.by_id
        self.rules = book.rules

    def cancel(
        self, states: Iterable[JobState], at: float, reason: str, orders: list[Command]
    ) -> None:
        """End waiting jobs at once; tell the builders of running ones to stop."""
        for state in states:
            if state.job.id not in self.jobs or state.status is _CANCELLING:
                continue
            if state.abandoned:
                continue  # cancelled before; its execution goes on for others
            if (leader := state.leader) is not None:
                self.book.leave(state, leader, at)
                orders.append(self.book.end(state, at, "cancelled", reason))
                if leader.abandoned and not leader.followers:
                    self._drop(leader, at, orders)
            elif state.followers:
                self.book.hand_over(state, at, reason, orders)
            elif state.slot is None:
                self.dispatcher.unwait(state, state.lane, at)
                orders.append(self.book.end(state, at, "cancelled", reason))
            else:
                self._stop(state, reason, orders)

    def fail_fast(self, at: float, orders: list[Command]) -> None:
        """Cancel the rest of each matrix of which a job failed just now, if that is the rule."""
        if not self.rules.fail_fast:
            return
        for order in tuple(orders):
            if isinstance(order, EndJob) and order.outcome == "failed" and order.job.matrix:
                rest = self.book.of_matrix(order.job.matrix)
                self.cancel(rest, at, f"{FAIL_FAST}{order.job.id} failed", orders)

    def _drop(self, leader: JobState, at: float, orders: list[Command]) -> None:
        """Give up an execution that serves nobody any more, running or waiting."""
        if leader.slot is None:
            self.dispatcher.unwait(leader, leader.lane, at)
            self.book.forget(leader)
        else:
            self._stop(leader, "nobody wants it any more", orders)

    @staticmethod
    def _stop(state: JobState, reason: str, orders: list[Command]) -> None:
        """Tell the builder of a running job to stop it."""
        if state.slot is not None:
            state.status = _CANCELLING
            state.reason = reason
            builder = state.slot.builder.builder.id
            orders.append(CancelJob(state.job.id, state.attempts, builder, reason))
