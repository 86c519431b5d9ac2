"""Background work of the scheduler's thread, done in small steps.

Work that looks at every waiting job takes longer than a report may wait. So it comes in small
steps, done between batches of reports, a few at a time and then nothing for a while: reports that
came in between are read first, and the other processes of the machine get the processor too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

Step = Callable[[], bool]
"""Works for a millisecond or two; returns whether there is more to do."""

#: real seconds of steps without a pause
AT_ONCE = 0.002
#: real seconds for reports when others have taken the steps' time
BRIEFLY = 0.001
#: a share of the time that the steps may take
SHARE = 0.2


class Background:
    """Gives turns to background work in steps; used from the scheduler's thread."""

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
