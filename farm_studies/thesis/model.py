"""The thesis's policies, farms and measures, and job sets simulated under all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from farm.assembly import make_rules
from farm.columns import Floats
from farm.scenario import load_scenario
from farm.sim.engines import Case, ends_of_cases
from farm.sim.setting import Setting
from farm_studies.thesis.job_sets import JobSet

#: name in the thesis -> policy (random: a drawn permutation, as scores)
POLICY_OF = {
    "LJF": "ljf",
    "SJF": "sjf",
    "Random": "score",
    "FIFO": "fifo",
    "LJF-aging": "ljf-aging",
    "SJF-aging": "sjf-aging",
}
ALL = tuple(POLICY_OF)
#: policies that differ on a single matrix, where ageing changes nothing
UNAGED = ALL[:4]
#: those that the thesis draws, in seconds; stretch and throughput (jobs per second) it only names
METRICS = (
    "makespan",
    "mean response time",
    "mean matrix response time",
    "mean stretch",
    "throughput",
)
MAKESPAN, RESPONSE, MATRIX_RESPONSE, STRETCH, THROUGHPUT = range(5)
SECONDS = (MAKESPAN, RESPONSE, MATRIX_RESPONSE)

Pool = dict[str, object]
"""A pool as in a scenario's file."""
Contention = Mapping[str, object]
PAGE_16: Contention = {"slowdown": "thesis"}


def pool(slots: float, contention: Contention | None = None, **more: object) -> Pool:
    """Return a pool of one builder."""
    return {"name": "node", "builders": 1, "slots": int(slots), "contention": contention, **more}


def nodes(slots: float, contention: Contention | None = None) -> list[Pool]:
    """Return the two builders of section 5.3."""
    return [pool(slots, contention, builders=2)]


def farm_of(pools: Sequence[Pool], policy: str, **scheduling: object) -> dict[str, object]:
    """Return the scenario of a farm under a policy of the thesis; its jobs are given apart."""
    return {
        "version": 1,
        "name": "thesis",
        "pools": pools,
        "workload": [{"arrivals": {"every": 1, "count": 1, "service_time": 1}}],
        "scheduling": {
            "policy": POLICY_OF[policy],
            "runtime_estimates": "oracle",
            **scheduling,
        },
    }


def setting_of(pools: Sequence[Pool], policy: str, **scheduling: object) -> Setting:
    """Return such a farm, to be played on."""
    scenario = load_scenario(farm_of(pools, policy, **scheduling))
    return Setting.of(scenario, make_rules(scenario))


Cases = Mapping[float, tuple[Sequence[JobSet], Sequence[Pool]]]
"""What is compared, by what is varied: job sets with the same arrivals and matrices, and pools."""


class Plays(msgspec.Struct, frozen=True):
    """The results of each job set, under each policy and in each case."""

    xs: tuple[float, ...]
    policies: tuple[str, ...]
    #: (sets by measures), by policy and case
    numbers: Mapping[tuple[str, float], Floats]

    @property
    def names(self) -> list[str]:
        """The cases as text."""
        return [f"{x:g}" for x in self.xs]

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

    def ratios(self, policy: str, measure: int, to: str = "Random") -> list[float]:
        """Return that of each case."""
        return [self.ratio(policy, x, measure, to) for x in self.xs]

    def best(self, x: float, measure: int) -> str:
        """Return the policy with the lowest ratio to Random."""
        return min(self.policies, key=lambda policy: self.ratio(policy, x, measure))


def paired_ratio(values: Floats, others: Floats) -> float:
    """Return the geometric mean of the ratios of pairs."""
    return float(np.exp(np.log(values / others).mean()))


def play_cases(
    cases: Cases, policies: Sequence[str] = ALL, *, aging: str = "matrix", **scheduling: object
) -> Plays:
    """Simulate each case under each policy; ``scheduling``: as in a scenario.

    By default the ageing policies sort each matrix, and take the matrices in order.
    """
    words = {"aging": aging, **scheduling}
    farms = {x: setting_of(pools, "FIFO", **words) for x, (_, pools) in cases.items()}
    (_, some), *_ = cases.values()
    rules = {policy: setting_of(some, policy, **words).rules for policy in policies}
    ends = ends_of_cases(
        {
            (policy, x): Case(cases[x][0], farm._replace(rules=rules[policy]))
            for policy in policies
            for x, farm in farms.items()
        }
    )
    times = {id(sets): service_times(sets) for sets, _ in cases.values()}
    numbers = {}
    for (policy, x), found in ends.items():
        sets = cases[x][0]
        numbers[policy, x] = measured(sets[0], times[id(sets)], found)
    return Plays(tuple(cases), tuple(policies), numbers)


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
