"""The random numbers of rollouts: one for each (rollout, job), whatever else happens.

The numbers depend on the seed, the rollout's number and the job's id alone, so alternatives from
one snapshot have common random numbers: a job keeps its numbers when builders are added or the
policy changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from farm.core.model import Builder, Job
from farm.core.state.snapshot import JobRecord
from farm.forecasts.runtime.quantiles import RuntimeDistribution

Floats = NDArray[np.float64]

#: minimum number of factors from which a rollout draws, if there are enough
LEAST_STRETCH = 20


class Uniforms:
    """Uniform numbers in [0, 1): one for each rollout and id."""

    def __init__(self, seed: int, name: str, ids: Sequence[str]) -> None:
        self._prefix = f"{seed}\x1f{name}\x1f"
        self._columns = _mixed(_hashes(ids))

    def of(self, numbers: range) -> Floats:
        """Return those of some rollouts: a row per rollout, a column per id."""
        rows = _hashes([f"{self._prefix}{number}" for number in numbers])
        bits = _mixed(rows[:, None] ^ self._columns) >> np.uint64(11)
        return bits.astype(np.float64) * 2.0**-53


class ServiceTimes:
    """Drawn service times on a builder of speed 1: one for each rollout and job.

    Jobs of one period are alike: each rollout draws a kind's factors from one stretch of its
    history (a quarter of it, chosen by the rollout), so that a rollout may have good or bad times
    as a whole. Drawn one by one from all of it, the errors of a long queue would cancel out.
    """

    def __init__(
        self, run_times: RuntimeDistribution, jobs: Sequence[Job], seed: int, count: int
    ) -> None:
        self._uniforms = Uniforms(seed, "service time", [job.id for job in jobs])
        self._estimates = np.empty(len(jobs))
        # all jobs of a kind have the same factors; a certain one has the factor 1
        seen: dict[str | None, list[float]] = {}
        kinds: list[str | None] = []
        for column, job in enumerate(jobs):
            self._estimates[column], factors = run_times.spread(job)
            kinds.append(None if factors is None else job.kind)
            seen.setdefault(kinds[-1], factors or [1.0])
        stretches = [_stretches(kind, seen[kind], seed, count) for kind in seen]
        self._factors = np.concatenate([np.empty((count, 0)), *stretches], axis=1)
        sizes = np.array([stretch.shape[1] for stretch in stretches], np.int64)
        number = {kind: n for n, kind in enumerate(seen)}
        of_job = np.array([number[kind] for kind in kinds], np.int64)
        # by job: the index of its first factor, and the distance to the last one
        self._begins, self._steps = (sizes.cumsum() - sizes)[of_job], (sizes - 1)[of_job]

    def of(self, number: int) -> Floats:
        """Return those of a rollout, in the order of the jobs.

        A factor is the quantile at a uniform number of the observed ones, linear between two of
        them (Hyndman and Fan's type 7).
        """
        places = self._uniforms.of(range(number, number + 1))[0] * self._steps
        below, factors = places.astype(np.int64), self._factors[number]
        low = factors.take(self._begins + below)
        high = factors.take(self._begins + np.minimum(below + 1, self._steps))
        times: Floats = self._estimates * ((high - low) * (places - below) + low)
        return times


def _stretches(kind: str | None, factors: Sequence[float], seed: int, count: int) -> Floats:
    """Return the factors of a kind that each rollout (row) draws from, in order of size."""
    size = min(len(factors), max(LEAST_STRETCH, len(factors) // 4))
    possible = sliding_window_view(np.array(factors), size)
    begins = Uniforms(seed, "stretch", [str(kind)]).of(range(count))[:, 0] * len(possible)
    return np.sort(possible[begins.astype(int)])


def ends_of(
    run_times: RuntimeDistribution, view: JobRecord, builder: Builder, u: Floats, at: float
) -> Floats:
    """Return the drawn instants at which a running attempt ends, not before ``at``."""
    since = view.began_at
    since = at if since is None else since
    expected_at = since + run_times.estimate(view.job, builder)
    if expected_at >= at and run_times.spread(view.job)[1] is None:
        # calculated from the start, as in the world: a certain rollout is then the simulation to
        # the last bit
        return np.full(len(u), expected_at)
    return at + run_times.draw_remaining(view.job, u, builder, max(0.0, at - since))


def _hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit numbers (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
