"""What the compiled engine covers: its object must be there, and know all that a scenario uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.core.contention.laws import ThreadSlowdown
from farm.core.dispatching.balancers import RANKINGS
from farm.core.model import Job
from farm.core.policies import takes_columns
from farm.core.pools.algorithm import AnyAlgorithm
from farm.core.pools.spec import PoolSpec
from farm.core.queues.plain import PlainQueue
from farm.core.rules import Estimator, SchedulingRules
from farm.forecasts.runtime.declared import Declared
from farm.forecasts.runtime.oracle import Oracle
from farm.plugins.guarded_algorithm import GuardedAlgorithm
from farm.plugins.guards import GuardedPolicy
from farm.scenario import Scenario
from farm.scenario.workload import Arrivals
from farm.sim.fast.kernel import native
from farm.workload.job_columns import JobColumns

Jobs = Sequence[Job] | JobColumns

MOST_COUNTED = 30_000
"""Slots of a builder, and attempts of a job, that columns have room for."""


def why_not(
    rules: SchedulingRules,
    estimator: Estimator,
    pools: Sequence[PoolSpec],
    algorithms: Mapping[str, AnyAlgorithm],
) -> str:
    """Return the first property of the farm that is not covered; empty: none."""
    for reason, found in (
        ("fair share", rules.path is not None or rules.make_queue is not PlainQueue),
        ("a balancer other than jenkins and longest-idle", not _known_balancer(rules)),
        ("a policy of the user's own", isinstance(rules.policy, GuardedPolicy)),
        ("run-time estimates that learn, or of the user's own", not _known_estimator(estimator)),
        ("decisions that are kept to be explained", rules.explain_last > 0),
        ("judged failures", rules.max_resets is not None),
        ("ends that free all slots first", rules.ends_together),
        ("a grace of platforms", rules.platform_grace is not None),
        (f"more than {MOST_COUNTED:,} retries", rules.retries > MOST_COUNTED),
    ):
        if found:
            return reason
    for pool in pools:
        if why := _of_pool(pool, algorithms.get(pool.name)):
            return f"pool {pool.name}: {why}"
    # last: who asked for the object and did not get it would have gained from it
    return (
        "" if native.is_there() else "a farm without its compiled kernel (in a clone: make kernel)"
    )


def why_not_these(rules: SchedulingRules, jobs: Jobs, pools: Sequence[PoolSpec]) -> str:
    """Return the first property of the jobs that is not covered; empty: none."""
    if isinstance(jobs, JobColumns):
        fails, in_matrix, with_action, one_id = _of_columns(jobs)
    else:
        fails = any(job.fails for job in jobs)
        in_matrix = any(job.matrix is not None for job in jobs)
        with_action = any(job.action is not None for job in jobs)
        one_id = len({job.id for job in jobs}) < len(jobs)
    if rules.fail_fast:
        loses = any(pool.lifetime is not None or pool.lost_at for pool in pools)
        if fails or (loses and in_matrix):
            return "fail_fast, and jobs that fail"
    if rules.dedup and with_action:
        return "dedup, and jobs with actions"
    return "jobs with one id" if one_id else ""


def why_whole(
    scenario: Scenario,
    rules: SchedulingRules,
    pools: Sequence[PoolSpec],
    algorithms: Mapping[str, AnyAlgorithm],
) -> str:
    """Return the first property for which all jobs have to be held, not only open ones; or none."""
    made = [one.options for one in scenario.workload if isinstance(one.options, Arrivals)]
    acts, fails = any(one.action for one in made), any(one.fails for one in made)
    for reason, found in (
        ("jobs that are not generated one by one", len(made) < len(scenario.workload)),
        ("phases", scenario.phases is not None),
        ("a policy that is asked job by job", not takes_columns(rules.policy)),
        ("fail_fast, and jobs that fail", rules.fail_fast and fails),
        ("dedup, and jobs with actions", rules.dedup and acts),
        ("builders that are lost", any(one.lifetime or one.lost_at for one in pools)),
        ("an algorithm that looks at jobs", any(o.looks_closely for o in algorithms.values())),
    ):
        if found:
            return reason
    return ""


def _of_columns(jobs: JobColumns) -> tuple[bool, bool, bool, bool]:
    """Return whether any fails, is in a matrix, has an action; their ids are distinct."""
    block = jobs.held
    if block is None:
        return False, False, False, False
    in_matrix, with_action = (
        any(value is not None for value in block.coded(field).values)
        for field in ("matrix", "action")
    )
    return bool(block.array("fails").any()), in_matrix, with_action, False


def _of_pool(pool: PoolSpec, algorithm: AnyAlgorithm | None) -> str:
    if pool.provisioned and (algorithm is None or isinstance(algorithm, GuardedAlgorithm)):
        return "a provisioning algorithm of the user's own"
    if pool.behaviour:
        return "builders of the user's own"
    if pool.has_signals:
        return "a provisioner with late or wrong signals"
    if pool.pickup_time:
        return "jobs that start some time after their dispatch"
    if pool.boot_delay is not None:
        return "boot times that are drawn"
    if pool.load_limits is not None:
        return "builders that report their load"
    if pool.law is not None and isinstance(pool.law.cpu, ThreadSlowdown):
        return "contention by threads"
    if pool.slots > MOST_COUNTED:
        return f"more than {MOST_COUNTED:,} slots a builder"
    return ""


def _known_balancer(rules: SchedulingRules) -> bool:
    plain = rules.heavy_light is None and not rules.by_speed
    return plain and rules.ranking in (RANKINGS["jenkins"], RANKINGS["longest-idle"])


def _known_estimator(estimator: Estimator) -> bool:
    return type(estimator) in (Declared, Oracle)
