"""The thesis's policies, farms and measures, and job sets simulated under all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import msgspec
import numpy as np

from farm.core.contention.laws import ContentionLaw
from farm.core.policies import POLICIES, KeyFunction, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import HeavyLightOptions, SchedulingRules
from farm.sim.engines import Case, ends_of_cases
from farm.sim.setting import Setting
from studies.thesis.job_sets import Floats, JobSet

#: name in the thesis -> policy (random: a drawn permutation, as scores)
POLICY_OF = {
    "LJF": "ljf",
    "SJF": "sjf",
    "Random": "score",
    "FIFO": "fifo",
    "LJF-aging": "ljf-aging",
    "SJF-aging": "sjf-aging",
}
#: policies that differ on a single matrix, where ageing changes nothing
UNAGED = tuple(POLICY_OF)[:4]
ALL = tuple(POLICY_OF)
#: those that the thesis draws, in seconds; stretch and throughput (jobs per second) it only names
METRICS = (
    "makespan",
    "mean response time",
    "mean matrix response time",
    "mean stretch",
    "throughput",
)
MAKESPAN, RESPONSE, MATRIX_RESPONSE, STRETCH, THROUGHPUT = range(5)


class Setup(msgspec.Struct, frozen=True):
    """A farm and its scheduling rules."""

    pools: tuple[PoolSpec, ...]
    #: of the ageing policies: each matrix sorted, the matrices in order; or by time in queue
    aging: Literal["matrix", "linear"] = "matrix"
    fail_fast: bool = False
    #: the balancer is ``fastest``
    by_speed: bool = False
    #: the balancer is ``heavy-light``
    heavy_light: HeavyLightOptions | None = None

    def rules(self, policy: str) -> SchedulingRules:
        """Return the scheduling rules of a policy of the thesis."""
        return SchedulingRules(
            policy=_key(policy, self.aging),
            fail_fast=self.fail_fast,
            by_speed=self.by_speed,
            heavy_light=self.heavy_light,
        )


@cache
def _key(policy: str, aging: Literal["matrix", "linear"]) -> KeyFunction:
    return POLICIES[POLICY_OF[policy]](PolicyOptions(aging=aging))


def nodes(slots: int, law: ContentionLaw | None = None) -> Setup:
    """Return the two builders of section 5.3."""
    return Setup((PoolSpec(name="node", slots=slots, builders=2, law=law),))


Cases = Mapping[float, tuple[Sequence[JobSet], Setup]]
"""What is compared, by what is varied: job sets with the same arrivals and matrices, and a farm."""


class Plays(msgspec.Struct, frozen=True):
    """The results of each job set, under each policy and in each case."""

    xs: tuple[float, ...]
    policies: tuple[str, ...]
    #: (sets by measures), by policy and case
    numbers: Mapping[tuple[str, float], Floats]

    def of(self, policy: str, x: float, measure: int) -> Floats:
        """Return a measure of each job set."""
        return self.numbers[policy, x][:, measure]

    def median(self, policy: str, x: float, measure: int) -> float:
        """Return the median over the job sets."""
        return float(np.median(self.of(policy, x, measure)))

    def mean(self, policy: str, x: float, measure: int) -> float:
        """Return the mean over the job sets, as the thesis gives it."""
        return float(self.of(policy, x, measure).mean())

    def ratio(self, policy: str, x: float, measure: int, to: str = "Random") -> float:
        """Return the geometric mean of the ratios to another policy on the same jobs."""
        return paired_ratio(self.of(policy, x, measure), self.of(to, x, measure))

    def best(self, x: float, measure: int) -> str:
        """Return the policy with the lowest ratio to Random."""
        return min(self.policies, key=lambda policy: self.ratio(policy, x, measure))


def paired_ratio(values: Floats, others: Floats) -> float:
    """Return the geometric mean of the ratios of pairs."""
    return float(np.exp(np.log(values / others).mean()))


def play_cases(cases: Cases, policies: Sequence[str] = ALL) -> Plays:
    """Simulate each case under each policy."""
    ends = ends_of_cases(
        {
            (policy, x): Case(sets, Setting(setup.pools, setup.rules(policy)))
            for policy in policies
            for x, (sets, setup) in cases.items()
        }
    )
    times = {id(sets): service_times(sets) for sets, _ in cases.values()}
    numbers = {}
    for (policy, x), found in ends.items():
        sets = cases[x][0]
        numbers[policy, x] = measured(sets[0], times[id(sets)], found)
    return Plays(tuple(cases), tuple(policies), numbers)


def ends_of(jobs: JobSet, policy: str, setup: Setup) -> list[float]:
    """Simulate one job set; return when each job ended, in order."""
    (ends,) = ends_of_cases({0: Case([jobs], Setting(setup.pools, setup.rules(policy)))}).values()
    found: list[float] = ends[0].tolist()
    return found


def service_times(sets: Sequence[JobSet]) -> Floats:
    """Return (sets by jobs) seconds."""
    return np.array([[job.service_time for job in jobs] for jobs in sets])


def measured(jobs: JobSet, times: Floats, ends: Floats) -> Floats:
    """Return (sets by measures) from service times and ends (sets by jobs).

    The sets have the arrivals and matrices of ``jobs``. Jobs that take no time have no stretch.
    """
    arrivals = np.array([job.arrived_at or 0.0 for job in jobs])
    names = [job.matrix or job.id for job in jobs]
    order = np.argsort(names, kind="stable")
    begins = np.unique(np.array(names)[order], return_index=True)[1]
    last = np.maximum.reduceat(ends[:, order], begins, axis=1)
    released = np.minimum.reduceat(arrivals[order], begins)
    makespan, responses = ends.max(axis=1) - arrivals.min(), ends - arrivals
    return np.column_stack(
        [
            makespan,
            responses.mean(axis=1),
            (last - released).mean(axis=1),
            np.nanmean(responses / np.where(times > 0, times, np.nan), axis=1),
            len(jobs) / makespan,
        ]
    )
