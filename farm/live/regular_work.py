"""What a live world does at intervals, between batches of events, and when the next is due."""

from __future__ import annotations

import math
from collections.abc import Callable

#: the longest wait for reports in a single run, real seconds
MAX_WAIT = 0.2
#: … in a farm that stays up: all that is due earlier, signals too, ends it
LONGEST_REST = 2.0
#: … and the shortest
LEAST_WAIT = 0.001
STATUS_INTERVAL = 0.25
TICK_INTERVAL = 0.05
#: real seconds between two looks for keys that hold something else than the farm wrote
LOOK_INTERVAL = 2.0


class RegularWork:
    """Calls what is due; instants are real. Used from the scheduler's thread.

    ``show`` is called later than due if there is no time, which ``has_time`` tells, given when
    reports were last read. ``rests``: nothing but what is due has to end a wait.
    """

    def __init__(
        self,
        tick: Callable[[], None],
        look: Callable[[], None],
        show: Callable[[], object],
        has_time: Callable[[float], bool],
        *,
        rests: bool,
    ) -> None:
        self.tick, self._look, self.show, self._has_time = tick, look, show, has_time
        self._longest_wait = LONGEST_REST if rests else MAX_WAIT
        self._tick_by = math.inf
        self._next_status = self._next_tick = self._next_look = 0.0

    def tick_by(self, at: float) -> None:
        """Have the next tick at this instant at the latest."""
        self._tick_by = min(self._tick_by, at)

    def tick_soon(self) -> None:
        """Have the next tick as soon as the last one is ``TICK_INTERVAL`` ago."""
        self.tick_by(self._next_tick)

    def do(self, now: float) -> None:
        """Do what is due; raises what the callbacks raise."""
        if now >= min(self._next_tick, self._tick_by):
            self._next_tick, self._tick_by = now + TICK_INTERVAL, math.inf
            self.tick()
        late_by = now - self._next_status
        shows = late_by >= STATUS_INTERVAL or (late_by >= 0 and self._has_time(now))
        # a farm at rest wakes once for both
        if now >= self._next_look - (STATUS_INTERVAL if shows else 0.0):
            self._next_look = now + LOOK_INTERVAL
            self._look()
        if shows:
            self._next_status = now + STATUS_INTERVAL
            self.show()

    def longest_wait(self, now: float, pause: float | None, silence_at: float) -> float:
        """Return for how long reports may be waited for, real seconds.

        Args:
            pause: until background work continues; None: there is none.
            silence_at: when a host will have been silent for too long.
        """
        due = min(self._next_look, self._tick_by, silence_at)
        longest = self._longest_wait if pause is None else min(pause, self._longest_wait)
        return max(LEAST_WAIT, min(longest, due - now))
