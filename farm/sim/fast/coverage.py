"""What the fast lane can play; whatever it cannot is left to the reference, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from farm.core.contention.laws import ThreadSlowdown
from farm.core.dispatching.balancers import RANKINGS
from farm.core.estimator import Estimator
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.queues.plain import PlainQueue
from farm.core.rules import SchedulingRules

WORTH_COMPILED = 50_000
"""Jobs from which loading the compiled loop (about half a second) is made good."""


def why_not(rules: SchedulingRules, estimator: Estimator, pools: Sequence[PoolSpec]) -> str:
    """Return what of the farm keeps the fast lane from playing it; empty: nothing does."""
    for reason, found in (
        ("numba is not installed (pip install 'build-farm-emulator[fast]')", not _compiles()),
        ("fair share", rules.path is not None or rules.make_queue is not PlainQueue),
        ("a balancer other than jenkins and longest-idle", not _known_balancer(rules)),
        ("run-time estimates that learn", estimator.learns),
        ("decisions that are kept to be explained", rules.explain_last > 0),
        ("judged failures", rules.failures is not None),
    ):
        if found:
            return reason
    return next((f"pool {pool.name}: {why}" for pool in pools if (why := _of_pool(pool))), "")


def why_not_these(rules: SchedulingRules, jobs: Sequence[Job]) -> str:
    """Return what of the jobs keeps the fast lane from playing them; empty: nothing does."""
    if rules.fail_fast and any(job.fails for job in jobs):
        return "fail_fast, and jobs that fail"
    if rules.dedup and any(job.action is not None for job in jobs):
        return "dedup, and jobs with actions"
    if len({job.id for job in jobs}) < len(jobs):
        return "jobs with one id"
    return ""


def _of_pool(pool: PoolSpec) -> str:
    if pool.provisioned:
        return "a provisioner"
    if pool.loses:
        return "builders that retire or are lost"
    if pool.load_limits is not None:
        return "builders that report their load"
    if pool.law is not None and isinstance(pool.law.cpu, ThreadSlowdown):
        return "contention by threads"
    return ""


def _known_balancer(rules: SchedulingRules) -> bool:
    plain = rules.heavy_light is None and not rules.by_speed
    return plain and rules.ranking in (RANKINGS["jenkins"], RANKINGS["longest-idle"])


def _compiles() -> bool:
    return find_spec("numba") is not None
