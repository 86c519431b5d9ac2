"""What a live world does at intervals, between batches of events, and when the next is due."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from farm.metrics.series import Series

#: the longest wait for reports in a single run, real seconds
MAX_WAIT = 0.2
#: … in a farm that stays up: all that is due earlier, signals too, ends it
LONGEST_REST = 2.0
#: … and the shortest
LEAST_WAIT = 0.001
STATUS_INTERVAL = 0.25
TICK_INTERVAL = 0.05
#: real seconds between two looks for keys that hold something else than the farm wrote: somewhat
#: more than two heartbeats, so that each second one brings a look, and none is due just before it
LOOK_INTERVAL = 2.2
#: real seconds by which work at intervals is brought forward at most (``WakeupForecast``)
MAX_EARLY = 0.9


class WakeupForecast:
    """Says what is done now as no other wake-up comes before it is due.

    A farm at rest wakes when heartbeats come. What it does at intervals it does with the last one
    before its time, and does not wake for it alone. The next one is expected after as long as has
    passed since the last one.
    """

    def __init__(self) -> None:
        self._last_at = 0.0
        self._next_at = 0.0

    def come(self, now: float) -> None:
        """Note a wake-up."""
        self._next_at = now + (now - self._last_at)
        self._last_at = now

    def is_time_for(self, due: float) -> bool:
        """Whether it is due, or will be before the next wake-up."""
        if due <= self._last_at:
            return True
        return due <= self._last_at + MAX_EARLY and due < self._next_at


Step = Callable[[], bool]
"""Works for a millisecond or two; returns whether there is more to do."""

#: real seconds of steps without a pause
AT_ONCE = 0.002
#: real seconds for reports when others have taken the steps' time
BRIEFLY = 0.001
#: a share of the time that the steps may take
SHARE = 0.2


class Background:
    """Gives turns to background work in steps; used from the scheduler's thread.

    Work that looks at every waiting job takes longer than a report may wait. So a few steps are
    done at a time and then nothing for a while: reports that came in between are read first, and
    the other processes of the machine get the processor too.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._workers: deque[Step] = deque()
        self._next_at = 0.0

    def add(self, step: Step) -> None:
        """Add work that is done in steps for as long as the farm runs."""
        self._workers.append(step)

    def has_time(self, since: float) -> bool:
        """Whether more may be done before the waiting reports are read."""
        return self._monotonic() - since < AT_ONCE

    def turn(self, since: float) -> float | None:
        """Do some steps if they are due and there is time.

        ``since``: when reports were last seen to (real). Returns the real seconds after which
        there may be more to do; None if nothing is to be done.
        """
        began = self._monotonic()
        if began < self._next_at:
            return self._next_at - began
        if not self.has_time(since):
            return BRIEFLY
        more = self._work_until(began + AT_ONCE)
        ended = self._monotonic()
        pause = (ended - began) * (1 / SHARE - 1)
        self._next_at = ended + pause
        return pause if more else None

    def _work_until(self, deadline: float) -> bool:
        """Do one step of each in turn; return whether more remains."""
        idle = 0
        while idle < len(self._workers):
            idle = 0 if self._workers[0]() else idle + 1
            self._workers.rotate(-1)
            if self._monotonic() >= deadline:
                return True
        return False


class RegularWork:
    """Calls what is due; instants are real. Used from the scheduler's thread.

    ``tick`` returns when it is due again at the latest. ``show`` is called later than due if the
    reports that wait leave no time. ``rests``: nothing but what is due has to end a wait.
    """

    def __init__(
        self,
        tick: Callable[[], float],
        look: Callable[[], None],
        show: Callable[[], object],
        meter: Series,
        *,
        rests: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tick, self._look, self.show, self._meter = tick, look, show, meter
        self._monotonic = monotonic
        self._background = Background(monotonic)
        self.add = self._background.add
        self._longest_wait = LONGEST_REST if rests else MAX_WAIT
        self._wakeups = WakeupForecast()
        self._tick_by = math.inf
        self._next_status = self._next_tick = self._next_look = 0.0

    def tick_by(self, at: float) -> None:
        """Have the next tick at this instant at the latest."""
        self._tick_by = min(self._tick_by, at)

    def tick_soon(self) -> None:
        """Have the next tick as soon as the last one is ``TICK_INTERVAL`` ago."""
        self.tick_by(self._next_tick)

    def do(self, now: float) -> float | None:
        """Do what is due, and some steps of background work; raises what the callbacks raise.

        ``now``: when reports were last seen to. Returns as ``Background.turn`` does.
        """
        self._wakeups.come(now)
        if now >= min(self._next_tick, self._tick_by):
            self._next_tick, self._tick_by = now + TICK_INTERVAL, math.inf
            self.tick_by(self._tick())
        late_by = now - self._next_status
        shows = late_by >= STATUS_INTERVAL or (late_by >= 0 and self._background.has_time(now))
        is_early_look = shows and self._wakeups.is_time_for(self._next_look)
        if now >= self._next_look or is_early_look:
            self._next_look = now + LOOK_INTERVAL
            self._look()
        if shows:
            self._next_status = now + STATUS_INTERVAL
            self.show()
        pause = self._background.turn(now)
        self._meter.observe("farm_scheduler_aside_seconds", self._monotonic() - now)
        return pause

    def longest_wait(self, now: float, pause: float | None, due: float) -> float:
        """Return for how long reports may be waited for, real seconds.

        Args:
            pause: until background work continues; None: there is none.
            due: when something else is to be done.
        """
        due = min(self._next_look, self._tick_by, due)
        longest = self._longest_wait if pause is None else min(pause, self._longest_wait)
        return max(LEAST_WAIT, min(longest, due - now))
