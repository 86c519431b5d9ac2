"""What the compiled engine covers: its object must be there, and know all that a scenario uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from farm.core.contention.laws import ThreadSlowdown
from farm.core.dispatching.balancers import RANKINGS
from farm.core.model import Job
from farm.core.policies import takes_columns
from farm.core.pools.algorithm import AnyAlgorithm
from farm.core.pools.spec import PoolSpec
from farm.core.queues.plain import PlainQueue
from farm.core.rules import Estimator
from farm.forecasts.runtime.declared import Declared
from farm.forecasts.runtime.oracle import Oracle
from farm.plugins.guarded_algorithm import GuardedAlgorithm
from farm.plugins.guards import GuardedPolicy
from farm.scenario import Scenario
from farm.scenario.workload import Arrivals
from farm.sim.fast.kernel import native
from farm.sim.setting import Setting
from farm.workload.columns import JobColumns

MOST_COUNTED = 30_000
"""Slots of a builder, and attempts of a job, that columns have room for."""


def why_not(setting: Setting, estimator: Estimator) -> str:
    """Return the first property of the farm that is not covered; empty: none."""
    rules = setting.rules
    ranked = rules.heavy_light is None and not rules.by_speed
    ranked = ranked and rules.ranking in (RANKINGS["jenkins"], RANKINGS["longest-idle"])
    known = type(estimator) in (Declared, Oracle)
    if why := _first(
        ("fair share", rules.path is not None or rules.make_queue is not PlainQueue),
        ("a balancer other than jenkins and longest-idle", not ranked),
        ("a policy of the user's own", isinstance(rules.policy, GuardedPolicy)),
        ("run-time estimates that learn, or of the user's own", not known),
        ("decisions that are kept to be explained", rules.explain_last > 0),
        ("judged failures", rules.max_resets is not None),
        ("ends that free all slots first", rules.ends_together),
        ("a grace of platforms", rules.platform_grace is not None),
        (f"more than {MOST_COUNTED:,} retries", rules.retries > MOST_COUNTED),
    ):
        return why
    for pool in setting.pools:
        if why := _of_pool(pool, setting.algorithms.get(pool.name)):
            return f"pool {pool.name}: {why}"
    # last: who asked for the object and did not get it would have gained from it
    return (
        "" if native.is_there() else "a farm without its compiled kernel (in a clone: make kernel)"
    )


class Properties(NamedTuple):
    """What matters of jobs: whether any fails, is in a matrix, has an action, repeats an id."""

    fails: bool = False
    in_matrix: bool = False
    with_action: bool = False
    repeats_ids: bool = False

    @classmethod
    def of(cls, jobs: Sequence[Job] | JobColumns) -> Properties:
        """Return what is true of these; those in columns are held, and have ids of their own."""
        repeats_ids = False
        if not isinstance(jobs, JobColumns):
            fails = any(job.fails for job in jobs)
            repeats_ids = len({job.id for job in jobs}) < len(jobs)
            seen = {job.matrix for job in jobs}, {job.action for job in jobs}
        elif (block := jobs.held) is None:
            return cls()
        else:
            fails = bool(block.array("fails").any())
            seen = {*block.coded("matrix").values}, {*block.coded("action").values}
        in_matrix, with_action = (bool(values - {None}) for values in seen)
        return cls(fails, in_matrix, with_action, repeats_ids)


def why_not_these(setting: Setting, jobs: Properties) -> str:
    """Return the first property of the jobs that is not covered; empty: none."""
    rules = setting.rules
    if rules.fail_fast:
        loses = any(pool.lifetime is not None or pool.lost_at for pool in setting.pools)
        if jobs.fails or (loses and jobs.in_matrix):
            return "fail_fast, and jobs that fail"
    if rules.dedup and jobs.with_action:
        return "dedup, and jobs with actions"
    return "jobs with one id" if jobs.repeats_ids else ""


def why_whole(scenario: Scenario, setting: Setting) -> str:
    """Return the first property for which all jobs have to be held, not only open ones; or none."""
    rules, algorithms = setting.rules, setting.algorithms.values()
    made = [one.options for one in scenario.workload if isinstance(one.options, Arrivals)]
    acts, fails = any(one.action for one in made), any(one.fails for one in made)
    return _first(
        ("jobs that are not generated one by one", len(made) < len(scenario.workload)),
        ("phases", scenario.phases is not None),
        ("a policy that is asked job by job", not takes_columns(rules.policy)),
        ("fail_fast, and jobs that fail", rules.fail_fast and fails),
        ("dedup, and jobs with actions", rules.dedup and acts),
        ("builders that are lost", any(one.lifetime or one.lost_at for one in setting.pools)),
        ("an algorithm that looks at jobs", any(o.looks_closely for o in algorithms)),
    )


def _first(*reasons: tuple[str, bool]) -> str:
    """Return the first reason that holds; empty: none does."""
    return next((reason for reason, holds in reasons if holds), "")


def _of_pool(pool: PoolSpec, algorithm: AnyAlgorithm | None) -> str:
    known = algorithm is not None and not isinstance(algorithm, GuardedAlgorithm)
    by_threads = pool.law is not None and isinstance(pool.law.cpu, ThreadSlowdown)
    return _first(
        ("a provisioning algorithm of the user's own", pool.provisioned and not known),
        ("builders of the user's own", bool(pool.behaviour)),
        ("a provisioner with late or wrong signals", pool.has_signals),
        ("builders that report their load", pool.load_limits is not None),
        ("contention by threads", by_threads),
        (f"more than {MOST_COUNTED:,} slots a builder", pool.slots > MOST_COUNTED),
    )
