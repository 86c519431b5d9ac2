"""What the compiled engine covers: its object must be there, and know all that a scenario uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from farm.core.contention.laws import ThreadSlowdown
from farm.core.dispatching.balancers import RANKINGS
from farm.core.model import Job
from farm.core.policies import takes_columns
from farm.core.queues.plain import PlainQueue
from farm.core.rules import Estimator, SchedulingRules
from farm.forecasts.runtime.declared import Declared
from farm.forecasts.runtime.oracle import Oracle
from farm.plugins.guards import GuardedAlgorithm, GuardedPolicy
from farm.scenario import Scenario
from farm.scenario.workload import Arrivals
from farm.sim.fast.kernel import native
from farm.sim.fast.needed_jobs import has_needs
from farm.sim.setting import Setting
from farm.workload.blocks import JobColumns

MOST_COUNTED = 30_000
"""Slots of a builder, and attempts of a job, that columns have room for."""


Condition = Callable[[Any], bool]


def _measures(rules: SchedulingRules) -> bool:
    """Return whether heavy-light, if that is the balancer, goes by a measure of its own."""
    if rules.heavy_light is None:
        return True
    from farm.core.dispatching.heavy_light import (  # noqa: PLC0415 - few farms have this balancer
        is_measured,
    )

    return is_measured(rules.heavy_light)


ESTIMATORS: Mapping[str, Condition] = {
    "run-time estimates that learn, or of the user's own": lambda estimator: (
        type(estimator) not in (Declared, Oracle)
    ),
}
RULES: Mapping[str, Condition] = {
    "fair share": lambda rules: rules.path is not None or rules.make_queue is not PlainQueue,
    "the balancer fastest": lambda rules: rules.by_speed,
    "a balancer of the user's own": lambda rules: (
        rules.ranking not in (RANKINGS["jenkins"], RANKINGS["longest-idle"])
    ),
    "heavy-light by the load that builders report": lambda rules: not _measures(rules),
    "a policy of the user's own": lambda rules: isinstance(rules.policy, GuardedPolicy),
    "decisions that are kept to be explained": lambda rules: rules.explain_last > 0,
    "ends that free all slots first": lambda rules: rules.ends_together,
    f"more than {MOST_COUNTED:,} retries": lambda rules: (
        max(rules.retries, rules.max_resets or 0) > MOST_COUNTED
    ),
}
POOLS: Mapping[str, Condition] = {
    "builders of the user's own": lambda pool: bool(pool.behaviour),
    "slots that go over to another invocation": lambda pool: bool(pool.switch_times),
    "a provisioner with late or wrong signals": lambda pool: pool.has_signals,
    "builders that report their load": lambda pool: pool.load_limits is not None,
    "contention by threads": lambda pool: (
        pool.law is not None and isinstance(pool.law.cpu, ThreadSlowdown)
    ),
    f"more than {MOST_COUNTED:,} slots a builder": lambda pool: pool.slots > MOST_COUNTED,
}
ALGORITHMS: Mapping[str, Condition] = {
    "a provisioning algorithm of the user's own": lambda algorithm: (
        algorithm is None or isinstance(algorithm, GuardedAlgorithm)
    ),
}
FAIL_FAST, DEDUP, ONE_ID, GROUPS, FEEDBACK = (
    "fail_fast, and jobs that fail",
    "dedup, and jobs with actions",
    "jobs with one id",
    "jobs in groups",
    "users, and re-runs",
)
LEFT_TO_THE_REFERENCE = (
    *(*RULES, *ESTIMATORS, *POOLS, *ALGORITHMS),
    *(FAIL_FAST, DEDUP, ONE_ID, GROUPS, FEEDBACK),
)
"""All that is not covered; documentation lists it (docs/tutorials/python.md)."""


def why_not(setting: Setting, estimator: Estimator) -> str:
    """Return the first property of the farm that is not covered; empty: none."""
    if why := _first_of(RULES, setting.rules) or _first_of(ESTIMATORS, estimator):
        return why
    for pool in setting.pools:
        why = _first_of(POOLS, pool)
        if pool.provisioned and not why:
            why = _first_of(ALGORITHMS, setting.algorithms.get(pool.name))
        if why:
            return f"pool {pool.name}: {why}"
    # last: who asked for the object and did not get it would have gained from it
    return (
        "" if native.is_there() else "a farm without its compiled kernel (in a clone: make kernel)"
    )


def _first_of(conditions: Mapping[str, Condition], value: object) -> str:
    return next((why for why, holds in conditions.items() if holds(value)), "")


class Properties(NamedTuple):
    """What matters of jobs: whether any fails, is in a matrix, has an action, and so on."""

    fails: bool = False
    in_matrix: bool = False
    with_action: bool = False
    repeats_ids: bool = False
    needs_others: bool = False
    in_group: bool = False

    @classmethod
    def of(cls, jobs: Sequence[Job] | JobColumns) -> Properties:
        """Return what is true of these; those in columns are held, and have ids of their own."""
        repeats_ids = False
        if not isinstance(jobs, JobColumns):
            fails = any(job.fails for job in jobs)
            needs_others = any(job.needs for job in jobs)
            in_group = any(job.group is not None for job in jobs)
            repeats_ids = len({job.id for job in jobs}) < len(jobs)
            seen = {job.matrix for job in jobs}, {job.action for job in jobs}
        elif (block := jobs.held) is None:
            return cls()
        else:
            fails = bool(block.array("fails").any())
            needs_others = has_needs(block)
            in_group = any(value is not None for value in block.coded("group").values)
            seen = {*block.coded("matrix").values}, {*block.coded("action").values}
        in_matrix, with_action = (bool(values - {None}) for values in seen)
        return cls(fails, in_matrix, with_action, repeats_ids, needs_others, in_group)


def why_not_these(setting: Setting, jobs: Properties) -> str:
    """Return the first property of the jobs that is not covered; empty: none."""
    rules = setting.rules
    if rules.fail_fast:
        ends = any(pool.lifetime is not None or pool.lost_at for pool in setting.pools)
        ends = ends or rules.platform_grace is not None
        if jobs.fails or (ends and jobs.in_matrix):
            return FAIL_FAST
    if rules.dedup and jobs.with_action:
        return DEDUP
    if jobs.in_group:
        return GROUPS
    return ONE_ID if jobs.repeats_ids else ""


def why_whole(scenario: Scenario, setting: Setting) -> str:
    """Return the first property for which all jobs have to be held, not only open ones; or none."""
    rules, algorithms = setting.rules, setting.algorithms.values()
    made = [one.options for one in scenario.workload if isinstance(one.options, Arrivals)]
    acts, fails = any(one.action for one in made), any(one.fails for one in made)
    return _first(
        ("jobs that are not generated one by one", len(made) < len(scenario.workload)),
        ("phases", scenario.phases is not None),
        ("a policy that is asked job by job", not takes_columns(rules.policy)),
        (FAIL_FAST, rules.fail_fast and fails),
        (DEDUP, rules.dedup and acts),
        (GROUPS, any(one.group for one in made)),
        (FEEDBACK, any(one.users or one.reruns for one in made)),
        ("judged failures, and jobs that fail", rules.max_resets is not None and fails),
        ("a grace of platforms", rules.platform_grace is not None),
        ("heavy-light", rules.heavy_light is not None),
        ("builders that are lost", any(one.lifetime or one.lost_at for one in setting.pools)),
        ("an algorithm that looks at jobs", any(o.looks_closely for o in algorithms)),
    )


def _first(*reasons: tuple[str, bool]) -> str:
    """Return the first reason that holds; empty: none does."""
    return next((reason for reason, holds in reasons if holds), "")
