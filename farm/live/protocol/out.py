"""What the protocol gives out; its parts and the world share one."""

from __future__ import annotations

import traceback
from collections import deque

import msgspec

from farm.core.events import Event
from farm.live.wire.dead_letters import SHOWN, DeadLetter, Reason, Refusals
from farm.live.wire.inbox import InboxEntry
from farm.live.wire.messages import Ask, HostCommand

Commands = list[tuple[str, HostCommand]]
"""Commands with the names of the hosts that they are for, in order."""


class Out:
    """Events, commands for hosts, questions and refusals, each in order."""

    def __init__(self, refusals: Refusals) -> None:
        #: each with the message that it came from; None: from none
        self.events: deque[tuple[Event, InboxEntry | None]] = deque()
        self.to_hosts: Commands = []
        self.asked: list[Ask] = []
        self._refusals = refusals
        #: the message that is being read, and that of the last event
        self.message: InboxEntry | None = None
        self._origin: InboxEntry | None = None

    @property
    def is_news(self) -> bool:
        """Whether there is something that does not go to hosts only."""
        return bool(self.events or self.asked)

    def add(self, event: Event) -> None:
        """Add an event."""
        self.events.append((event, self.message))

    def next(self) -> Event:
        """Remove the first event and return it."""
        event, self._origin = self.events.popleft()
        return event

    def take_asked(self) -> list[Ask]:
        """Return what was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked

    def take_commands(self) -> Commands:
        """Return the commands since the last time."""
        commands, self.to_hosts = self.to_hosts, []
        return commands

    def refuse(self, reason: Reason, why: str, what: object = None, jobs: int = 1) -> None:
        """Refuse the message that is being read, or a part of it; ``jobs``: how many are in it."""
        text = "" if what is None else msgspec.json.encode(what).decode()[:SHOWN]
        if self.message is not None:
            self._refusals.add(self.message.refused(reason, why, text, jobs))

    def letter_of(self, error: Exception) -> DeadLetter | None:
        """Return the message that cannot be handled, whole; None: none is to blame."""
        if (entry := self.message or self._origin) is None:
            return None
        why = "".join(traceback.format_exception(error))
        return entry.refused("error", why[-SHOWN:], entry.data.decode(errors="replace"))
