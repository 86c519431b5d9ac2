"""When a live farm is up, when it has ended, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from farm.core.errors import RunError
from farm.core.events import CancelRequested, FarmOpened
from farm.core.model import Cause
from farm.core.scheduler import Scheduler
from farm.live.protocol.out import Out
from farm.live.protocol.protocol import Protocol
from farm.live.settings import from_environment, start_limit

#: real seconds that cancelled attempts get to answer after the second stop request
LAST_CHANCE = 5.0


class Lifetime:
    """Opens a farm, detects its end, and carries out stop requests.

    In a run the first stop request closes the intake and cancels the jobs that wait: running ones
    end. The second cancels those too, and waits a bounded time for their builders to answer. A
    farm that stays up (``ends_at``: None) ends at the first, leaving everything as it is.
    """

    def __init__(
        self, scheduler: Scheduler, protocol: Protocol, out: Out, ends_at: float | None
    ) -> None:
        self._scheduler, self._protocol, self._out = scheduler, protocol, out
        #: a run lasts at least so long, farm time
        self._ends_at = ends_at
        #: how often a stop was requested (written by signal handlers and other threads)
        self.asked = 0
        self._obeyed = 0
        #: whether jobs that follow others are still to come
        self.is_more_to_come: Callable[[], bool] = lambda: False
        self._over_at = float("inf")
        #: how many hosts it waits for before it opens; None: it is open, or others open it
        self._awaited: int | None = None
        #: until when it has to be up (real); None: nothing is waited for
        self._up_by: float | None = None

    @property
    def is_pressing(self) -> bool:
        """Whether the end was requested so that nothing is waited for."""
        return self.asked > (0 if self._ends_at is None else 1)

    def open(self, at: float) -> None:
        """Open the farm; if it stays up, a separate service sizes its provisioned pools."""
        self._out.add(FarmOpened(at, provisioned=self._ends_at is not None))

    def start(self, hosts: int, now: float) -> None:
        """Open it when this many hosts are up; it is over, once, when it is up.

        That is with the builders that need no time to boot.
        """
        self._awaited, self._up_by = hosts, now + from_environment().start_timeout

    def is_over(self, at: float, now: float) -> bool:
        """Return whether nothing is left to be done at farm time ``at`` (``now`` is real).

        Carries out stop requests. Raises RunError if hosts, or then builders, take longer to come
        up than FARM_START_TIMEOUT.
        """
        if self._up_by is not None:
            return self._is_up(at, now, self._up_by)
        if self._ends_at is None:
            return self.asked > 0
        done = self._protocol.is_load_done and not self._scheduler.jobs
        if done and self._obeyed == 0:
            done = not self.is_more_to_come()
        if (done and (at >= self._ends_at or self._obeyed > 0)) or now >= self._over_at:
            return True
        if self.asked > self._obeyed:
            self._obey(at, now)
        return False

    def _obey(self, at: float, now: float) -> None:
        """Carry out a stop request."""
        self._obeyed += 1
        self._protocol.close(at)
        running_too, states = self._obeyed > 1, self._scheduler.jobs.values()
        if running_too:
            self._over_at = min(self._over_at, now + LAST_CHANCE)
        if jobs := tuple(s.job.id for s in states if running_too or s.slot is None):
            self._out.add(CancelRequested(at, jobs=jobs, cause=Cause.STOPPED))

    def _is_up(self, at: float, now: float, up_by: float) -> bool:
        hosts, awaited = len(self._protocol.known_hosts), self._awaited
        if awaited is not None and (hosts >= awaited or self.asked):
            self.open(at)
            self._awaited, self._up_by = None, now + from_environment().start_timeout
        elif self.asked or (awaited is None and all(p.boot_time for p in self._protocol.booting)):
            self._up_by = None
            return True
        elif now > up_by:
            who = "not all of the first builders"
            if awaited is not None:
                who = f"{hosts} of {awaited} builder hosts"
            raise RunError(f"{who} came up within {start_limit(from_environment().start_timeout)}")
        return False
