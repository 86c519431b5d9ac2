"""The thesis's job sets: the same for every compared policy and farm.

Service times are drawn by NumPy's legacy generator with seed 1161, so that the numbers are the same
everywhere; of the model's sets all thousand are drawn, so that a set does not depend on the number
of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from farm.columns import Floats
from farm.core.model import Job

ALPHA, SEED, MAX_SETS = 1.161, 1161, 1000
#: section 5.1: ten matrices, four runs each; the first of four is discarded
MATRICES, RUNS = 10, 4

JobSet = tuple[Job, ...]
Draw = Callable[[np.random.RandomState, tuple[int, int]], Floats]
"""Service times (s) of a number of sets, each of a number of jobs, drawn by this generator."""


def pareto(draws: np.random.RandomState, shape: tuple[int, int]) -> Floats:
    """Draw from the thesis's distribution: Pareto(1.161), at least 1 s."""
    return np.asarray(draws.pareto(ALPHA, shape)) + 1.0


def model_sets(runs: int, draw: Draw = pareto, *, jobs_apart: float = 0.0) -> list[JobSet]:
    """Return section 5.3's sets: four matrices of 25 jobs; the longest fifth of a set is heavy.

    All matrices are released together, their jobs ``jobs_apart`` s apart.
    """
    draws = np.random.RandomState(SEED)
    times = draw(draws, (MAX_SETS, 100))
    ranks = [np.argsort(draws.permutation(100)) for _ in times]
    made = zip(times[:runs], ranks[:runs], strict=True)
    return [_jobs(*one, 25, 0.0, jobs_apart) for one in made]


def jenkins_sets(matrices: int) -> list[JobSet]:
    """Return section 5.1's sets, run by run: ten matrices of 100 jobs, four runs of each test.

    A test of several ``matrices`` has these and the next ones of the ten, 30 s apart. In each run
    the jobs of a matrix enter the queue in another order, and random weights are drawn again.
    """
    draws = np.random.RandomState(SEED)
    drawn = pareto(draws, (MATRICES, 100))
    sets = []
    for first in range(MATRICES):
        wanted = [drawn[(first + number) % MATRICES] for number in range(matrices)]
        for _ in range(RUNS):
            times = np.concatenate([draws.permutation(one) for one in wanted])
            sets.append(_jobs(times, draws.permutation(len(times)), 100, 30.0))
    return sets


def _jobs(
    times: Floats, ranks: npt.NDArray[np.int64], size: int, apart: float, jobs_apart: float = 0.0
) -> JobSet:
    heavy = times > np.sort(times)[-1 - len(times) // 5]
    arrivals = [n // size * apart + n % size * jobs_apart for n in range(len(times))]
    jobs = [
        Job(
            id=str(number),
            service_time=time,
            matrix=str(number // size),
            heavy=is_heavy,
            score=-float(rank),
            arrived_at=at,
        )
        for number, (time, is_heavy, rank, at) in enumerate(
            zip(times.tolist(), heavy.tolist(), ranks.tolist(), arrivals, strict=True)
        )
    ]
    return tuple(sorted(jobs, key=lambda job: job.arrived_at or 0.0))


def marked(sets: Sequence[JobSet], field: str, chosen: npt.NDArray[np.bool_]) -> list[JobSet]:
    """Return the sets with a field of each job set from ``chosen`` (sets by jobs)."""
    replace = msgspec.structs.replace
    return [
        tuple(replace(job, **{field: one}) for job, one in zip(jobs, said, strict=True))
        for jobs, said in zip(sets, chosen.tolist(), strict=True)
    ]
