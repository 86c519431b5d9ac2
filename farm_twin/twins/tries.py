"""Attempts that failed or were lost, and jobs that were tried again: what the records show."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.records.attempt import Attempt, grouped, times_of
from farm.records.traces.bundle import further
from farm.units import many
from farm_twin.twins.runner_lives import CLOCKS

HOUR = 3600.0
FIRST, ENOUGH, MOST = 0.9, 3, 500
"""Share of the further attempts that overtook older jobs, from which these get their old places
back, of how many of them at least, and how many are looked at."""


class Tries(msgspec.Struct, frozen=True, rename=json_name):
    """What the records show of failures, losses and retries."""

    attempts: int
    #: that ended by themselves, and not well
    failed: int
    #: with their runner
    lost: int
    #: jobs with another attempt after one that failed, or was lost
    failed_again: int
    lost_again: int
    #: further attempts of a job after losses, and after failures, at most
    most_lost: int
    most_failed: int
    #: losses of runners per hour in which they ran a job
    loss_rate: float

    def evidence(self, pool: str) -> Iterator[str]:
        """Yield what the scenario of a pool says of it; what was not seen is not said."""
        if self.failed:
            again = _again(self.failed_again, self.most_failed)
            yield (
                f"{self.failed:,} of {many(self.attempts, 'attempt')} failed "
                f"({self.failed / self.attempts:.1%}){again}; they fail in the replay, too"
            )
        if self.lost:
            again = _again(self.lost_again, self.most_lost)
            yield (
                f"{self.lost:,} were lost with their runner, {self.loss_rate:g} losses per busy "
                f"builder-hour{again}; the replay has them as recorded. To draw them: --set "
                f"workload.0.trace.format=bundle-without-losses --set "
                f"pools.{pool}.losses.rate={self.loss_rate:g}/h"
            )


def _again(jobs: int, most: int) -> str:
    times = "once" if most == 1 else f"up to {most:,} times"
    return f", {many(jobs, 'job')} tried again {times}" if jobs else ", none tried again"


def tries_of(attempts: Sequence[Attempt]) -> Tries:
    """Return what attempts show, of those that ran.

    A runner that is lost may take several attempts with it: that is one loss.
    """
    attempts = [one for one in attempts if one.ran is not None]
    by_job: dict[str, dict[int, Attempt]] = defaultdict(dict)
    for one in attempts:
        by_job[one.job or one.id][one.attempt] = one
    again = {
        result: Counter(
            job
            for job, some in by_job.items()
            for number, one in some.items()
            if one.result == result and number + 1 in some
        )
        for result in ("failed", "lost")
    }
    lost = [one for one in attempts if one.result == "lost"]
    losses = {(one.runner, round(one.finished_at or 0.0)) for one in lost}
    busy = _busy_time(attempts)
    return Tries(
        attempts=len(attempts),
        failed=sum(one.result == "failed" for one in attempts),
        lost=len(lost),
        failed_again=len(again["failed"]),
        lost_again=len(again["lost"]),
        most_lost=max(again["lost"].values(), default=0),
        most_failed=max(again["failed"].values(), default=0),
        loss_rate=round(HOUR * len(losses) / busy, 4) if busy else 0.0,
    )


def retries_go_first(attempts: Sequence[Attempt]) -> bool:
    """Return whether jobs are tried again before older ones that wait.

    Only those tell that met a queue: older jobs of their level and labels, which started after
    that.
    """
    again = {one.id for one in further(attempts)[:MOST]}
    started = (one for one in attempts if again and one.started_at is not None)
    queues = grouped(started, lambda one: (one.platform, one.level))
    first = comparable = 0
    for some in queues.values():
        arrived, since, start = (
            times_of(some, name) for name in ("arrived_at", "eligible_at", "started_at")
        )
        order = np.argsort(arrived)
        last_start = np.append(-np.inf, np.maximum.accumulate(start[order]))
        # of the jobs that had arrived before it
        last = last_start[np.searchsorted(arrived, since, sorter=order)]
        tells = np.array([one.id in again for one in some]) & (last > since + CLOCKS)
        comparable += int(tells.sum())
        first += int((tells & (start <= last)).sum())
    return comparable >= ENOUGH and first >= FIRST * comparable


def _busy_time(attempts: Sequence[Attempt]) -> float:
    """Return for how long runners ran at least one job, of all of them together (s)."""
    until: dict[str, float] = {}
    busy = 0.0
    for one in sorted(attempts, key=lambda one: one.started_at or 0.0):
        start, end = one.started_at or 0.0, one.finished_at or 0.0
        last = max(start, until.get(one.runner, start))
        busy += max(0.0, end - last)
        until[one.runner] = max(last, end)
    return busy
