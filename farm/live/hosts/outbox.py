"""Orders on their way to builder hosts: remembered by the roster, written as Celery messages."""

from __future__ import annotations

import time
from collections import defaultdict

from farm.core.commands import CancelJob, Command, LoseBuilder, RetireBuilder, StartJob
from farm.live.hosts.registry import HostState, Roster
from farm.live.wire.messages import VERSION, CancelAttempt, Lose, Order, StartAttempt
from farm.live.wire.task_messages import TaskMessages


class Outbox:
    """Collects the messages that a batch of decisions sends; whose host is gone gets none.

    (That its builder is lost is then the next fact in line.)
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._messages = TaskMessages()
        self._waiting: dict[str, list[bytes]] = defaultdict(list)

    def put(self, command: Command) -> None:
        """Send what a builder is to do, if the order is one for a builder."""
        if isinstance(command, StartJob):
            self._start(command)
        elif isinstance(command, CancelJob):
            self._cancel(command)
        elif isinstance(command, RetireBuilder):
            host = self._roster.host_of.get(command.builder)
            if host is not None:
                self.send(host, self._roster.retire(host, command.builder, time.monotonic()))
        elif isinstance(command, LoseBuilder):
            host = self._roster.host_of.get(command.builder)
            if host is not None:
                self.send(host, Lose(v=VERSION, builder=command.builder))

    def _start(self, command: StartJob) -> None:
        host = self._roster.host_of.get(command.builder)
        if host is not None:
            order = StartAttempt(
                v=VERSION,
                job=command.job,
                attempt=command.attempt,
                builder=command.builder,
                slot=command.slot,
            )
            self._roster.dispatch(host, order, time.monotonic())
            self.send(host, order)

    def _cancel(self, command: CancelJob) -> None:
        host = self._roster.host_of.get(command.builder)
        if host is not None:
            order = CancelAttempt(
                v=VERSION,
                job=command.job,
                attempt=command.attempt,
                builder=command.builder,
                reason=command.reason,
            )
            self._roster.cancel(host, order, time.monotonic())
            self.send(host, order)

    def send(self, host: HostState, order: Order) -> None:
        """Put an order to a host into the batch that is being made."""
        self._waiting[host.name].append(self._messages.encode(order, host.name))

    def take(self) -> dict[str, list[bytes]]:
        """Return the messages by host, in order, and begin anew."""
        taken, self._waiting = self._waiting, defaultdict(list)
        return taken
