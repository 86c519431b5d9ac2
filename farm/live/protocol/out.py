"""What the protocol gives out; its parts share one, which the world empties."""

from __future__ import annotations

from collections import deque

import msgspec

from farm.core.events import Event
from farm.live.wire.dead_letters import SHOWN, Reason
from farm.live.wire.inbox import Entry
from farm.live.wire.messages import Ask, HostCommand
from farm.live.wire.refusals import Refusals


class Out:
    """Events, commands for hosts, questions and refusals, each in order."""

    def __init__(self, refusals: Refusals) -> None:
        #: each with the message that it came from; None: from none
        self.events: deque[tuple[Event, Entry | None]] = deque()
        #: with the names of the hosts
        self.to_hosts: list[tuple[str, HostCommand]] = []
        self.asked: list[Ask] = []
        self.refusals = refusals
        #: the message that is being read, and that of the last event
        self.message: Entry | None = None
        self.origin: Entry | None = None

    def add(self, event: Event) -> None:
        """Add an event."""
        self.events.append((event, self.message))

    def next(self) -> Event:
        """Remove the first event and return it."""
        event, self.origin = self.events.popleft()
        return event

    def refuse(self, reason: Reason, why: str, what: object = None) -> None:
        """Refuse the message that is being read, or a part of it."""
        text = "" if what is None else msgspec.json.encode(what).decode()[:SHOWN]
        if self.message is not None:
            self.refusals.add(self.message.refused(reason, why, text))
