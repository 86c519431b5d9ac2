"""When a live run ends: when everything is done, or a stop was requested."""

from __future__ import annotations

from farm.core.events import CancelRequested
from farm.core.model import Cause
from farm.core.scheduler import Scheduler
from farm.live.hosts.intake import Intake

#: real seconds that cancelled attempts get to answer after the second stop request
LAST_CHANCE = 5.0


class Ending:
    """Detects the end of a run, and carries out stop requests.

    The first stop request closes the intake and cancels the jobs that wait: running ones end.
    The second cancels those too, and waits a bounded time for their builders to answer.
    """

    def __init__(self, book: Scheduler, intake: Intake, ends_at: float) -> None:
        self._book = book
        self._intake = intake
        #: the run lasts at least so long, farm time
        self._ends_at = ends_at
        #: how often a stop was requested (written by signal handlers and other threads)
        self.asked = 0
        self._obeyed = 0
        self._over_at = float("inf")

    def is_over(self, at: float, now: float) -> bool:
        """Return whether nothing is left to be done at farm time ``at`` (``now`` is real)."""
        done = self._intake.load_done and not self._book.jobs
        return (done and (at >= self._ends_at or self._obeyed > 0)) or now >= self._over_at

    def look(self, at: float, now: float) -> None:
        """Carry out a stop request."""
        if self.asked > self._obeyed:
            self._obeyed += 1
            self._stop(at, now)

    def _stop(self, at: float, now: float) -> None:
        self._intake.closed = True
        self._intake.end_load(at)
        states = self._book.jobs.values()
        if self._obeyed == 1:
            jobs = tuple(state.job.id for state in states if state.slot is None)
        else:
            jobs = tuple(state.job.id for state in states)
            self._over_at = min(self._over_at, now + LAST_CHANCE)
        if jobs:
            self._intake.events.append(CancelRequested(at, jobs=jobs, cause=Cause.STOPPED))


class StayingUp:
    """The end of a long-running farm: when it is requested, leaving everything as it is."""

    def __init__(self) -> None:
        #: how often a stop was requested (written by signal handlers and other threads)
        self.asked = 0

    def is_over(self, at: float, now: float) -> bool:  # noqa: ARG002 - the same as Ending's
        """Return whether a stop was requested."""
        return self.asked > 0

    def look(self, at: float, now: float) -> None:
        """Do nothing."""
