"""The thesis's experiments (chapters 4 and 5): job sets, policies, and one play of them.

Service times are Pareto(1.161) from 1 on, drawn by NumPy's legacy generator with seed 1161, so that
the numbers are the same everywhere and every policy and size plays the same jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from farm.core.commands import Command, EndJob
from farm.core.contention.laws import ContentionLaw
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import POLICIES, KeyFunction, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle
from farm.sim.simulation import play as play_world
from farm.sim.world import SimulatedWorld
from farm.workload import batches

ALPHA, SEED, MOST_SETS = 1.161, 1161, 1000
#: name in the thesis -> policy (random: a drawn permutation, as scores)
POLICY_OF = {
    "LJF": "ljf",
    "SJF": "sjf",
    "Random": "score",
    "FIFO": "fifo",
    "LJF-aging": "ljf-aging",
    "SJF-aging": "sjf-aging",
}
METRICS = ("makespan", "mean response time", "mean matrix response time")


class Numbers(NamedTuple):
    """What a play came to, seconds; in the order of ``METRICS``."""

    makespan: float
    response: float
    matrix_response: float


class Plan(NamedTuple):
    """How a job set is played."""

    builders: int
    slots: int
    law: ContentionLaw | None = None
    #: of the ageing policies: each matrix sorted, the matrices in order; or by time in queue
    aging: str = "matrix"


def job_sets(
    runs: int, matrices: int = 4, size: int = 25, apart: float = 0.0
) -> list[tuple[Job, ...]]:
    """Draw job sets; each matrix is released ``apart`` seconds after the one before.

    All thousand are drawn, so that a set does not depend on ``runs``. The longest fifth is heavy.
    """
    draws = np.random.RandomState(SEED)
    count = matrices * size
    times = draws.pareto(ALPHA, (MOST_SETS, count)) + 1.0
    sets = []
    for row in times:
        heavy = row > np.sort(row)[-1 - count // 5]
        place = np.argsort(draws.permutation(count))
        sets.append(
            tuple(
                Job(
                    id=str(number),
                    service_time=float(row[number]),
                    matrix=str(number // size),
                    heavy=bool(heavy[number]),
                    score=-float(place[number]),
                    arrived_at=number // size * apart,
                )
                for number in range(count)
            )
        )
    return sets[:runs]


def plays(
    jobs: Sequence[Job], name: str, plans: Sequence[Plan], *, fast: bool = False
) -> list[Numbers]:
    """Play one job set under the policy of that name, on farms of several sizes.

    ``fast``: by the compiled loop, which loads the jobs once (Numba must be installed).
    """
    if not fast:
        return [play(jobs, name, plan) for plan in plans]
    from farm.sim.fast.load import load_of  # noqa: PLC0415 - Numba, where it is installed
    from farm.sim.fast.play import play as play_fast  # noqa: PLC0415 - likewise

    rules = SchedulingRules(policy=_policy(name, plans[0]))
    load = load_of(rules.policy, Oracle(), jobs)
    found = []
    for plan in plans:
        played = play_fast(load, [_pool(plan)], rules)
        if played is None:
            return plays(jobs, name, plans)
        found.append(_numbers(jobs, played.farm.jobs["finished_at"].tolist()))
    return found


def play(jobs: Sequence[Job], name: str, plan: Plan) -> Numbers:
    """Play one job set by the scheduler itself."""
    ended: dict[str, float] = {}

    def observe(_: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if type(command) is EndJob:
                ended[command.job.id] = command.finished_at

    pool = _pool(plan)
    world = SimulatedWorld([pool], batches(iter(jobs)))
    rules = SchedulingRules(policy=_policy(name, plan))
    play_world(Scheduler(rules, Oracle(), [pool]), world, [observe])
    return _numbers(jobs, [ended[job.id] for job in jobs])


def _policy(name: str, plan: Plan) -> KeyFunction:
    return POLICIES[POLICY_OF[name]](PolicyOptions(aging=plan.aging))


def _pool(plan: Plan) -> PoolSpec:
    return PoolSpec(name="node", slots=plan.slots, builders=plan.builders, law=plan.law)


def _numbers(jobs: Sequence[Job], ends: Sequence[float]) -> Numbers:
    responses = [at - (job.arrived_at or 0.0) for job, at in zip(jobs, ends, strict=True)]
    last: dict[str | None, float] = {}
    for job, response in zip(jobs, responses, strict=True):
        last[job.matrix] = max(response, last.get(job.matrix, 0.0))
    return Numbers(max(ends), fmean(responses), fmean(last.values()))
