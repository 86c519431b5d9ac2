"""When a live farm has ended, and how it is stopped."""

from __future__ import annotations

from farm.core.events import CancelRequested
from farm.core.model import Cause
from farm.core.scheduler import Scheduler
from farm.live.protocol.protocol import Protocol

#: real seconds that cancelled attempts get to answer after the second stop request
LAST_CHANCE = 5.0


class Ending:
    """Detects the end of a farm, and carries out stop requests.

    In a run the first stop request closes the intake and cancels the jobs that wait: running ones
    end. The second cancels those too, and waits a bounded time for their builders to answer. A
    farm that stays up (``ends_at``: None) ends at the first, leaving everything as it is.
    """

    def __init__(self, scheduler: Scheduler, protocol: Protocol, ends_at: float | None) -> None:
        self._scheduler = scheduler
        self._protocol = protocol
        #: a run lasts at least so long, farm time
        self._ends_at = ends_at
        #: how often a stop was requested (written by signal handlers and other threads)
        self.asked = 0
        self._obeyed = 0
        self._over_at = float("inf")

    @property
    def is_pressing(self) -> bool:
        """Whether the end was requested so that nothing is waited for."""
        return self.asked > (0 if self._ends_at is None else 1)

    def is_over(self, at: float, now: float) -> bool:
        """Return whether nothing is left to be done at farm time ``at`` (``now`` is real)."""
        if self._ends_at is None:
            return self.asked > 0
        done = self._protocol.submissions.ended and not self._scheduler.jobs
        return (done and (at >= self._ends_at or self._obeyed > 0)) or now >= self._over_at

    def look(self, at: float, now: float) -> None:
        """Carry out a stop request."""
        if self.asked <= self._obeyed or self._ends_at is None:
            return
        self._obeyed += 1
        self._protocol.submissions.close(at)
        running_too, states = self._obeyed > 1, self._scheduler.jobs.values()
        if running_too:
            self._over_at = min(self._over_at, now + LAST_CHANCE)
        if jobs := tuple(s.job.id for s in states if running_too or s.slot is None):
            self._protocol.out.add(CancelRequested(at, jobs=jobs, cause=Cause.STOPPED))
