"""What rollouts draw: one uniform number for each (rollout, job), whatever else happens.

The numbers depend on the seed, the rollout's number and the job's id alone, so alternatives that
are rolled out from one snapshot see common random numbers: a job keeps its luck when builders are
added or the policy changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from farm.core.model import Builder, Job
from farm.core.snapshot import JobRecord
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.sim.rollouts import loops

Floats = NDArray[np.float64]

#: numbers that are worked on together
IN_CACHE = 1 << 16
#: minimum number of factors from which a rollout draws, if there are enough
LEAST_STRETCH = 20


def uniforms(seed: int, name: str, count: int, ids: Sequence[str]) -> Floats:
    """Return uniform numbers in [0, 1): a row per rollout, a column per id."""
    rows = np.array([_hash(f"{seed}\x1f{name}\x1f{k}") for k in range(count)], dtype=np.uint64)
    columns = np.array([_hash(one) for one in ids], dtype=np.uint64)
    columns, made = _mixed(columns), np.empty((count, len(ids)))
    for some in _in_cache(made.shape):
        made[some] = (_mixed(rows[some, None] ^ columns) >> np.uint64(11)) * 2.0**-53
    return made


def service_times(
    run_times: RuntimeDistribution, jobs: Sequence[Job], u: Floats, seed: int
) -> Floats:
    """Return drawn service times on a builder of speed 1, in the place of the uniform numbers.

    Jobs of one time are alike: each rollout draws a kind's factors from one stretch of its history
    (a quarter of it, chosen by the rollout), so that a rollout may have good or bad times as a
    whole. Drawn one by one from all of it, the errors of a long queue would cancel out.
    """
    times, estimates = u, np.empty(len(jobs))
    # of one kind all are drawn from the same factors
    groups: dict[str, tuple[list[float], list[int]]] = {}
    for column, job in enumerate(jobs):
        estimates[column], factors = run_times.spread(job)
        if factors is None:
            times[:, column] = estimates[column]
        else:
            groups.setdefault(job.kind, (factors, []))[1].append(column)
    draw, drawn = loops.quickest(loops.draw, u.size), []
    for kind, (factors, columns) in groups.items():
        stretch = min(len(factors), max(LEAST_STRETCH, len(factors) // 4))
        starts = uniforms(seed, "stretch", len(u), [kind])[:, 0] * (len(factors) - stretch + 1)
        seen = sliding_window_view(np.array(factors), stretch)[starts.astype(int)]
        drawn.append((np.array(columns), np.sort(seen)))
    for some in _in_cache(times.shape):
        for of_kind, seen in drawn:
            draw(times[some], of_kind, estimates, seen[some])
    return times


def _in_cache(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield the rows of a matrix, as many at a time as a processor has at hand."""
    rows, columns = shape
    at_once = 1 + IN_CACHE // max(1, columns)
    return (slice(begin, begin + at_once) for begin in range(0, rows, at_once))


def ends_of(
    run_times: RuntimeDistribution, view: JobRecord, builder: Builder, u: Sequence[float], at: float
) -> list[float]:
    """Return the drawn instants at which a running attempt ends, not before ``at``."""
    since = view.started_at if view.started_at is not None else view.dispatched_at
    since = at if since is None else since
    expected_at = since + run_times.estimate(view.job, builder)
    if expected_at >= at and run_times.spread(view.job)[1] is None:
        # reckoned from the start, as the world does: a certain rollout is then the simulation to
        # the last bit
        return [expected_at] * len(u)
    left = run_times.draw_remaining(view.job, u, builder, max(0.0, at - since))
    return [at + rest for rest in left]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit numbers (the finaliser of SplitMix64; Steele, Lea and Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed
