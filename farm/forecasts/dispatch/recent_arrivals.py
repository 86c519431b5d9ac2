"""What was submitted lately: what is yet to come is taken to be like it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from farm.core.events import ArrivalsEnded, Event, JobsSubmitted
from farm.core.model import Job

#: seconds that count as lately
WINDOW = 3600.0
#: submissions that are remembered
MAX_SUBMISSIONS = 500
#: submissions in the window from which a rate is told
MIN_SUBMISSIONS = 10
#: jobs that a live farm remembers of them
MOST_JOBS = 2_000


class RecentArrivals(msgspec.Struct, frozen=True):
    """Submissions of the recent past, each of one or more jobs, that came in ``time`` seconds."""

    submissions: tuple[tuple[Job, ...], ...]
    time: float

    @property
    def jobs(self) -> list[Job]:
        """All jobs, in order."""
        return [job for jobs in self.submissions for job in jobs]


class ArrivalMemory:
    """Remembers the submissions of the last hour; ``most_jobs``: no more jobs than that."""

    def __init__(self, most_jobs: float = float("inf")) -> None:
        self._submissions: deque[tuple[float, tuple[Job, ...]]] = deque()
        self._most_jobs, self._jobs = most_jobs, 0
        self._since: float | None = None
        self._is_over = False

    def observe(self, event: Event) -> None:
        """Remember what is submitted, and whether no more is known to come.

        Where people answer how jobs end, more may come all the same, like what came before.
        """
        if isinstance(event, JobsSubmitted):
            self.take(event.at, event.jobs)
        elif isinstance(event, ArrivalsEnded):
            self._is_over = True

    def take(self, at: float, jobs: Sequence[Job]) -> None:
        """Remember jobs that were submitted together."""
        self._is_over = False
        if self._since is None:
            # of the first one nothing is known but that it came
            self._since = at
            return
        kept = self._submissions
        kept.append((at, tuple(jobs)))
        self._jobs += len(jobs)
        while len(kept) > MAX_SUBMISSIONS or (self._jobs > self._most_jobs and kept):
            self._since, gone = kept.popleft()
            self._jobs -= len(gone)

    def recent(self, at: float) -> RecentArrivals | None:
        """Return what came lately; None: no more is to come, or too little to tell a rate."""
        if self._is_over:
            return None
        kept = [jobs for when, jobs in self._submissions if when >= at - WINDOW]
        if self._since is None or len(kept) < MIN_SUBMISSIONS or at <= self._since:
            return None
        return RecentArrivals(tuple(kept), min(WINDOW, at - self._since))
