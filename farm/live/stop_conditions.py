"""When a live run is over: everything done, a stop asked for, or nobody left to do it."""

from __future__ import annotations

from farm.core.events import CancelRequested
from farm.core.state import JobState
from farm.live.hosts.intake import Intake
from farm.live.hosts.requests import Fleet
from farm.live.mirror import FarmBook

#: real seconds that cancelled attempts get to answer after the second stop request
LAST_CHANCE = 5.0
#: real seconds between looks for jobs that nobody can run
LOOK_INTERVAL = 1.0


class Ending:
    """Watches for the end and asks for what brings it about.

    The first stop request closes the intake and cancels the jobs that wait: running ones end.
    The second cancels those too, and waits a bounded time for their builders to answer.
    """

    def __init__(self, book: FarmBook, fleet: Fleet, intake: Intake, ends_at: float) -> None:
        self._book = book
        self._fleet = fleet
        self._intake = intake
        #: the run lasts at least so long, farm time
        self._ends_at = ends_at
        #: how often a stop was asked for (written by signal handlers and other threads)
        self.asked = 0
        self._obeyed = 0
        self._over_at = float("inf")
        self._next_look = 0.0

    def is_over(self, at: float, now: float) -> bool:
        """Whether nothing is left to be done at farm time ``at`` (``now`` is real)."""
        done = self._intake.load_done and not self._book.jobs
        return (done and (at >= self._ends_at or self._obeyed > 0)) or now >= self._over_at

    def look(self, at: float, now: float) -> None:
        """Obey a stop request, or give up jobs that no builder will ever run."""
        if self.asked > self._obeyed:
            self._obeyed += 1
            self._stop(at, now)
        elif now >= self._next_look:
            self._next_look = now + LOOK_INTERVAL
            self._give_up_hopeless(at)

    def _stop(self, at: float, now: float) -> None:
        self._intake.closed = self._intake.load_done = True
        states = self._book.jobs.values()
        if self._obeyed == 1:
            jobs = tuple(state.job.id for state in states if state.slot is None)
        else:
            jobs = tuple(state.job.id for state in states)
            self._over_at = min(self._over_at, now + LAST_CHANCE)
        if jobs:
            self._cancel(at, jobs, "the run was stopped")

    def _give_up_hopeless(self, at: float) -> None:
        """When the load is done, nothing runs and nobody is coming: cancel what nobody can run."""
        waiting = self._book.jobs.values()
        if not waiting or not self._intake.load_done or self._fleet.booting:
            return
        if any(pool.provisioned for pool in self._fleet.pools.values()):
            return
        if any(state.slot is not None for state in waiting):
            return
        jobs = tuple(state.job.id for state in waiting if not self._is_runnable(state))
        if jobs:
            self._cancel(at, jobs, "no builder will ever be able to run it")

    def _is_runnable(self, state: JobState) -> bool:
        return any(
            builder.builder.takes_jobs and builder.builder.can_run(state.job.platform)
            for builder in self._book.builders.values()
        )

    def _cancel(self, at: float, jobs: tuple[str, ...], reason: str) -> None:
        self._intake.facts.append(CancelRequested(at, jobs=jobs, reason=reason))


class StayingUp:
    """A farm that stays up: it ends when asked to, and leaves everything as it is."""

    def __init__(self) -> None:
        #: how often a stop was asked for (written by signal handlers and other threads)
        self.asked = 0

    def is_over(self, at: float, now: float) -> bool:  # noqa: ARG002 - the same as Ending's
        """Whether a stop was asked for."""
        return self.asked > 0

    def look(self, at: float, now: float) -> None:
        """Give nothing up: builders may come at any time."""
