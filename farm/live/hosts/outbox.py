"""Commands for builder hosts: recorded in the roster and written as Celery messages."""

from __future__ import annotations

import time
from collections import defaultdict

from farm.core.commands import CancelJob, Command, LoseBuilder, RetireBuilder, StartJob
from farm.live.hosts.roster import HostState, Roster
from farm.live.wire.messages import HostCommand, Reset
from farm.live.wire.task_messages import TaskMessages


class Outbox:
    """Collects the messages of a batch of decisions; hosts that are gone get none.

    (The next event is then the loss of its builder.)
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._messages = TaskMessages()
        self._waiting: dict[str, list[bytes]] = defaultdict(list)
        self._unknown_hosts: set[str] = set()

    def put(self, command: Command) -> None:
        """Send a command if it is for a builder."""
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
        """Add a command for a host to the current batch."""
        if isinstance(command, Reset):  # the host may be gone
            self._unknown_hosts.add(host.name)
        self._waiting[host.name].append(self._messages.encode(command, host.name))

    def take(self) -> tuple[dict[str, list[bytes]], set[str]]:
        """Return the messages by host, in order, and the unknown hosts; clear both."""
        taken = self._waiting, self._unknown_hosts
        self._waiting, self._unknown_hosts = defaultdict(list), set()
        return taken
