"""The jobs that arrive during a rollout, drawn from those that were submitted lately.

Where jobs overtake others, or a provisioner goes by demand, waiting jobs depend on what is yet to
come. What came lately comes again: submissions at the recent rate, each a copy of a recent one, so
teams, platforms, kinds and sizes of matrices keep their shares. How that rate changes in the course
of a day is not known.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from farm.core.model import Job
from farm.core.policies import fifo
from farm.core.pools.spec import PoolSpec
from farm.core.rules import Choices, SchedulingRules
from farm.sim.rollouts.draws import ServiceTimes
from farm.workload.streams import stream

#: lately: seconds, and submissions that are remembered and needed for a rate
WINDOW = 3600.0
REMEMBERED, ENOUGH = 500, 10


class RecentArrivals(msgspec.Struct, frozen=True):
    """Submissions of the recent past, each of one or more jobs, that came in ``time`` seconds."""

    submissions: tuple[tuple[Job, ...], ...]
    time: float

    @property
    def jobs(self) -> list[Job]:
        """All jobs, in order."""
        return [job for jobs in self.submissions for job in jobs]

    def drawn(
        self, times: ServiceTimes, seed: int, number: int, at: float
    ) -> Iterator[tuple[float, tuple[Job, ...]]]:
        """Yield the arrivals of a rollout after an instant: a Poisson process.

        ``times`` are of ``jobs``.
        """
        rng = stream(seed, "later arrivals", number)
        rate, count = len(self.submissions) / self.time, len(self.submissions)
        begins, begin = [], 0
        for jobs in self.submissions:
            begins.append(begin)
            begin += len(jobs)
        serial = 0
        while True:
            at -= math.log1p(-rng.random()) / rate
            place = int(rng.random() * count)
            serial += 1
            yield (
                at,
                tuple(
                    _copy(job, serial, times.drawn(number, begins[place] + nth, rng.random()))
                    for nth, job in enumerate(self.submissions[place])
                ),
            )


def _copy(job: Job, serial: int, service_time: float) -> Job:
    """Return a job like this one: no part of what is there, and not known to fail."""
    return msgspec.structs.replace(
        job,
        id=f"{job.id}~like-{serial}",
        service_time=service_time,
        arrived_at=None,
        matrix=None if job.matrix is None else f"{job.matrix}~like-{serial}",
        action=None,
        fails=False,
    )


class ArrivalMemory:
    """Remembers the submissions of the last hour."""

    def __init__(self) -> None:
        self._submissions: deque[tuple[float, tuple[Job, ...]]] = deque(maxlen=REMEMBERED)
        self._since: float | None = None

    def take(self, at: float, jobs: Sequence[Job]) -> None:
        """Remember jobs that were submitted together."""
        if self._since is None:
            # of the first one nothing is known but that it came
            self._since = at
            return
        if len(self._submissions) == REMEMBERED:
            self._since = self._submissions[0][0]
        self._submissions.append((at, tuple(jobs)))

    def recent(self, at: float) -> RecentArrivals | None:
        """Return what came lately; None: too little to tell a rate."""
        kept = [jobs for when, jobs in self._submissions if when >= at - WINDOW]
        if self._since is None or len(kept) < ENOUGH or at <= self._since:
            return None
        return RecentArrivals(tuple(kept), min(WINDOW, at - self._since))


def matter(
    rules: SchedulingRules,
    choices: Choices | None,
    pools: Iterable[PoolSpec],
    jobs: Iterable[Job],
) -> bool:
    """Return whether later arrivals can change when one of these jobs is dispatched.

    ``choices``: those made while the farm ran. Under first in, first out on fixed pools they can
    not: nothing overtakes a job.
    """
    policy = rules.policy if choices is None else rules.policy_of(choices) or rules.policy
    in_order = policy is fifo.key and len({job.level for job in jobs}) <= 1
    whole = rules.path is None and rules.heavy_light is None
    return not (in_order and whole) or any(pool.provisioned for pool in pools)
