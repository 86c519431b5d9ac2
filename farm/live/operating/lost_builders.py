"""The builders that were lost lately, which operators are shown."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from farm.core import events
from farm.core.commands import Command, RequestBuilder
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.live.wire.pool_report import LostBuilder

#: how many lost builders are remembered, and for how many real seconds
MAX_REMEMBERED = 100
REMEMBERED_TIME = 600.0


class LostBuilders:
    """Remembers lost builders, as an observer of the run; excused losses are none."""

    def __init__(self, scheduler: Scheduler) -> None:
        #: of the builders that are present or requested
        self._pool_of = {name: s.builder.pool for name, s in scheduler.builders.items()}
        for pool in scheduler.pools.values():
            self._pool_of.update(dict.fromkeys(pool.requested, pool.name))
        #: with the instants of their losses (real)
        self._lost: deque[tuple[float, LostBuilder]] = deque(maxlen=MAX_REMEMBERED)

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in what happens to builders."""
        if isinstance(event, events.BuilderJoined):
            self._pool_of[event.builder.id] = event.builder.pool
        elif isinstance(event, events.BuilderRetired | events.BuilderLost):
            pool = self._pool_of.pop(event.builder, None)
            if pool is not None and isinstance(event, events.BuilderLost) and not event.excused:
                lost = LostBuilder(event.builder, event.at, event.reason, pool)
                self._lost.append((time.monotonic(), lost))
        for command in commands:
            if isinstance(command, RequestBuilder):
                self._pool_of[command.builder.id] = command.builder.pool

    def lately(self, now: float) -> tuple[LostBuilder, ...]:
        """Return the builders that were lost lately, by an instant (real)."""
        return tuple(builder for at, builder in self._lost if at > now - REMEMBERED_TIME)
