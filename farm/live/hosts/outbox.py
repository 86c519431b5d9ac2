"""Commands on their way to builder hosts: remembered by the roster, written as Celery messages."""

from __future__ import annotations

import time
from collections import defaultdict

from farm.core.commands import CancelJob, Command, LoseBuilder, RetireBuilder, StartJob
from farm.live.hosts.registry import HostState, Roster
from farm.live.wire.messages import HostCommand, Reset
from farm.live.wire.task_messages import TaskMessages


class Outbox:
    """Collects the messages that a batch of decisions sends; whose host is gone gets none.

    (That its builder is lost is then the next event in line.)
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._messages = TaskMessages()
        self._waiting: dict[str, list[bytes]] = defaultdict(list)
        self._strangers: set[str] = set()

    def put(self, command: Command) -> None:
        """Send what a builder is to do, if the command is one for a builder."""
        if not isinstance(command, StartJob | CancelJob | RetireBuilder | LoseBuilder):
            return
        host = self._roster.host_of.get(command.builder)
        if host is None:
            return
        now = time.monotonic()
        if isinstance(command, StartJob):
            self._roster.dispatch(host, command, now)
        elif isinstance(command, CancelJob):
            self._roster.cancel(host, command, now)
        elif isinstance(command, RetireBuilder):
            self._roster.retire(host, command.builder, now)
        self.send(host, command)

    def send(self, host: HostState, command: HostCommand) -> None:
        """Put a command to a host into the batch that is being made."""
        if isinstance(command, Reset):  # perhaps nobody is there to take it
            self._strangers.add(host.name)
        self._waiting[host.name].append(self._messages.encode(command, host.name))

    def take(self) -> tuple[dict[str, list[bytes]], set[str]]:
        """Return the messages by host, in order, and which hosts nobody knows; begin anew."""
        taken = self._waiting, self._strangers
        self._waiting, self._strangers = defaultdict(list), set()
        return taken
