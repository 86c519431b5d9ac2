"""Which message each event came from: the one to set aside if the event cannot be handled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sized
from contextlib import contextmanager

from farm.live.wire.inbox import Entry


class EventMessages:
    """Tracks a queue of events, filled at one end and emptied at the other.

    Args:
        events: the queue; what ``of`` encloses appends to it, ``taken`` follows each that goes.
    """

    def __init__(self, events: Sized) -> None:
        self._events = events
        #: events that have gone
        self._gone = 0
        #: places of the first event of a message, and of the first one after it
        self._spans: deque[tuple[int, int, Entry]] = deque()
        #: the message being handled; None if there is none
        self.current: Entry | None = None

    @contextmanager
    def of(self, entry: Entry) -> Iterator[None]:
        """Attribute the events appended in this block to this message."""
        self.current, first = entry, self._gone + len(self._events)
        yield
        self.current, after = None, self._gone + len(self._events)
        if after > first:
            self._spans.append((first, after, entry))

    def taken(self) -> None:
        """Record that the first event was taken off the queue and is being handled."""
        place = self._gone
        self._gone += 1
        while self._spans and self._spans[0][1] <= place:
            self._spans.popleft()
        came = bool(self._spans) and self._spans[0][0] <= place
        self.current = self._spans[0][2] if came else None
