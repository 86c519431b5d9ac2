"""Whether to use the compiled engine: it must cover the scenario, and be wanted or worthwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from farm.core.contention.laws import ThreadSlowdown
from farm.core.dispatching.balancers import RANKINGS
from farm.core.model import Job
from farm.core.pools.algorithm import Algorithm
from farm.core.pools.spec import PoolSpec
from farm.core.queues.plain import PlainQueue
from farm.core.rules import Estimator, SchedulingRules
from farm.forecasts.runtime.declared import Declared
from farm.forecasts.runtime.oracle import Oracle
from farm.plugins.guarded_algorithm import GuardedAlgorithm
from farm.plugins.guards import GuardedPolicy
from farm.workload.alike import AlikeJobs

Jobs = Sequence[Job] | AlikeJobs

WORTH_LOADING = 50_000
"""Jobs from which loading the compiled loop (half a second) is made good."""
WORTH_COMPILING = 4_000_000
"""Jobs from which compiling it (once on a machine, 45 s of CPU time) is."""
PROVISIONED = 4
"""Times as long the reference takes for a job where a provisioner plans, too."""
MOST_COUNTED = 30_000
"""Slots of a builder, and attempts of a job, that columns have room for."""


def is_worth_it(jobs: int, pools: Sequence[PoolSpec] = ()) -> bool:
    """Return whether this many jobs finish sooner by the compiled loop than by the reference."""
    if any(pool.provisioned for pool in pools):
        jobs *= PROVISIONED
    if jobs < WORTH_LOADING or not _compiles():
        return False
    return jobs >= WORTH_COMPILING or _is_compiled()


def why_not(
    rules: SchedulingRules,
    estimator: Estimator,
    pools: Sequence[PoolSpec],
    algorithms: Mapping[str, Algorithm[Any]],
) -> str:
    """Return the first property of the farm that is not covered; empty: none."""
    for reason, found in (
        ("a Python without numba (pip install 'build-farm-emulator[fast]')", not _compiles()),
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
    return ""


def why_not_these(
    rules: SchedulingRules, jobs: Sequence[Job] | AlikeJobs, pools: Sequence[PoolSpec]
) -> str:
    """Return the first property of the jobs that is not covered; empty: none."""
    if isinstance(jobs, AlikeJobs):
        return ""
    if rules.fail_fast:
        loses = any(pool.lifetime is not None or pool.lost_at for pool in pools)
        if any(job.fails or (loses and job.matrix is not None) for job in jobs):
            return "fail_fast, and jobs that fail"
    if rules.dedup and any(job.action is not None for job in jobs):
        return "dedup, and jobs with actions"
    if len({job.id for job in jobs}) < len(jobs):
        return "jobs with one id"
    return ""


def _of_pool(pool: PoolSpec, algorithm: Algorithm[Any] | None) -> str:
    if pool.provisioned and (algorithm is None or isinstance(algorithm, GuardedAlgorithm)):
        return "a provisioning algorithm of the user's own"
    if algorithm is not None and algorithm.looks_closely:
        return "a provisioning algorithm that looks at every job"
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


def _compiles() -> bool:
    return find_spec("numba") is not None


def _known_estimator(estimator: Estimator) -> bool:
    return type(estimator) in (Declared, Oracle)


def _is_compiled() -> bool:
    from farm.sim.fast.kernel import loop  # noqa: PLC0415 - Numba takes half a second to load

    stats = getattr(loop.play, "stats", None)  # a plain function with NUMBA_DISABLE_JIT=1
    kept_at: str | None = stats and stats.cache_path
    return kept_at is not None and any(Path(kept_at).glob("loop.play-*.nbc"))
