"""What live jobs take of the scheduler: their platforms, as each has a queue, and their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from farm.core.model import Job, Platform
from farm.core.pools.spec import PoolSpec

#: maximum number of platforms, beside those that the pools serve
MAX_PLATFORMS = 1000
#: characters of attributes for which a job counts as one more (live.max_waiting)
PAGE = 1024
#: why a job is refused
ONE_TOO_MANY = f"live jobs ask for {MAX_PLATFORMS} platforms of no pool already"


class LiveJobs:
    """Counts live jobs by platform: one is forgotten with its last job."""

    def __init__(self, pools: Collection[PoolSpec]) -> None:
        self._samples = [pool.builder(1, 0) for pool in pools]
        self._jobs: Counter[Platform] = Counter()
        #: the object that all jobs of a platform share
        self._shared: dict[Platform, Platform] = {}
        #: how many are served by no pool
        self._others = 0
        #: as how many more than they are they count, being large
        self.extra = 0

    def take(self, job: Job) -> Platform | None:
        """Count a new job and return its platform; None: it names one too many."""
        platform = job.platform
        if platform not in self._jobs:
            if (served := self._is_served(platform)) is False and self._others >= MAX_PLATFORMS:
                return None
            self._others += not served
        self._jobs[platform] += 1
        self.extra += _pages(job)
        return self._shared.setdefault(platform, platform)

    def go_on(self, jobs: Iterable[Job]) -> None:
        """Count the jobs of an earlier scheduler."""
        for job in jobs:
            self.take(job)

    def ended(self, job: Job) -> None:
        """Count a job no more."""
        platform = job.platform
        self.extra -= _pages(job)
        self._jobs[platform] -= 1
        if self._jobs[platform] <= 0:
            del self._jobs[platform]
            if self._shared.pop(platform, None) is not None:
                self._others -= not self._is_served(platform)

    def _is_served(self, platform: Platform) -> bool:
        return any(sample.can_run(platform) for sample in self._samples)


def _pages(job: Job) -> int:
    attributes = job.attributes
    if not attributes:
        return 0
    return sum(len(name) + len(value) for name, value in attributes.items()) // PAGE
