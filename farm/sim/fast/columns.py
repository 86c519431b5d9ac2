"""Jobs and builders as arrays: the values that the kernel plays with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from farm.core.contention.laws import ContentionLaw, Load
from farm.core.dispatching.balancers import RANKINGS
from farm.core.estimator import Estimator
from farm.core.model import Builder, Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.sim.fast import kernel
from farm.sim.fast.heaps import Array, keyed

Batches = Sequence[tuple[float, tuple[Job, ...]]]

#: notes of a job (submitted, dispatched, started, finished, ended, cleaned), and of a builder
NOTES_OF_A_JOB, NOTES_OF_A_BUILDER = 6, 1


class Played(msgspec.Struct):
    """A play that is over: its values and, by number, the jobs and builders that they are of."""

    farm: kernel.Farm
    batches: Batches
    jobs: Sequence[Job]
    builders: Sequence[Builder]
    #: the run time that each job was queued with, seconds
    estimates: Sequence[float]


def play(
    rules: SchedulingRules,
    estimator: Estimator,
    pools: Sequence[PoolSpec],
    batches: Batches,
    *,
    ends_at: float = 0.0,
    noted: bool,
) -> Played | None:
    """Play jobs on a farm; None: jobs are to be given up, which only the reference does.

    ``coverage`` has found nothing against it. ``noted``: the story will be asked for.
    """
    jobs = list(chain.from_iterable(together for _, together in batches))
    estimates = [estimator.estimate(job) for job in jobs]
    builders = list(_builders(pools))
    notes = 3 + NOTES_OF_A_JOB * len(jobs) + NOTES_OF_A_BUILDER * len(builders) if noted else 0
    farm = kernel.Farm(
        **_job_columns(rules, jobs, estimates, batches),
        **_builder_columns(pools, builders),
        **_matching(jobs, builders),
        **_results(len(jobs)),
        counts=np.zeros(kernel.COUNTS, np.int64),
        instants=np.array([0.0, 0.0, np.inf, np.inf]),
        begun=np.empty(len(jobs), np.int64),
        note_kind=np.empty(notes, np.int8),
        note_what=np.empty(notes, np.int64),
        note_at=np.empty(notes),
    )
    longest_idle = rules.ranking is RANKINGS["longest-idle"]
    ranking = kernel.LONGEST_IDLE if longest_idle else kernel.JENKINS
    if kernel.play(farm, ranking, ends_at) == kernel.HOPELESS:
        return None
    return Played(farm, batches, jobs, builders, estimates)


def _job_columns(
    rules: SchedulingRules, jobs: Sequence[Job], estimates: Sequence[float], batches: Batches
) -> dict[str, Array]:
    counts = [len(together) for _, together in batches]
    at = np.array([at for at, _ in batches])
    places = _order(rules, jobs, estimates, np.repeat(at, counts))
    order = np.empty(len(jobs), np.int64)
    order[places] = np.arange(len(jobs))
    return {
        "work": np.array([job.service_time for job in jobs]),
        "order": order,
        "at_place": places,
        "heavy": np.array([job.heavy for job in jobs], np.int8),
        "memory_heavy": np.array([job.memory_heavy for job in jobs], np.int8),
        "batch_at": at,
        "batch_begins": np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
    }


def _order(
    rules: SchedulingRules, jobs: Sequence[Job], estimates: Sequence[float], at: Array
) -> Array:
    """Return the jobs in the order of their sort keys: (-level, the policy's key, serial).

    A key is constant, and whatever it is made of is known when the job is: so all are sorted now.
    """
    made = zip(jobs, estimates, at.tolist(), strict=True)
    keys = [rules.policy(*one, serial) for serial, one in enumerate(made, 1)]
    levels = [-job.level for job in jobs]
    of_columns: Any = np.array(keys, np.float64).reshape(len(jobs), -1)
    return np.lexsort((*of_columns.T[::-1], np.array(levels)))


def _builders(pools: Sequence[PoolSpec]) -> Iterator[Builder]:
    """Yield the farm's builders, in the order in which the scheduler requests them."""
    index = 0
    for pool in pools:
        for number in range(1, pool.builders + 1):
            index += 1
            yield pool.builder(number, index)


def _builder_columns(pools: Sequence[PoolSpec], builders: Sequence[Builder]) -> dict[str, Array]:
    slots = np.array([builder.slots for builder in builders], np.int64)
    total = int(slots.sum())
    laws = [pool.law for pool in pools if pool.law is not None]
    count, zeros = len(builders), np.zeros(len(builders), np.int64)

    def by_builder(values: Sequence[Any]) -> Array:
        """Spread what is alike in a pool over its builders."""
        return np.repeat(np.array(values), [pool.builders for pool in pools])

    numbers = [-1 if pool.law is None else laws.index(pool.law) for pool in pools]
    return {
        "index": np.array([builder.index for builder in builders], np.int64),
        "slots": slots,
        "first_slot": np.concatenate(([0], np.cumsum(slots)[:-1])).astype(np.int64),
        "speed": np.array([builder.speed for builder in builders]),
        "takes_jobs": np.array([builder.takes_jobs for builder in builders]),
        "joins_at": by_builder([float(pool.boot_time) for pool in pools]),
        "inter_job_time": by_builder([float(pool.inter_job_time) for pool in pools]),
        "law": by_builder(numbers),
        "slowdown": _slowdowns(laws, int(slots.max(initial=0))),
        "agenda": keyed(total + count, 1),
        "joined": np.zeros(count, np.bool_),
        "busy": zeros.copy(),
        "active_at": np.zeros(count),
        "running": np.full(total, -1, np.int64),
        "ends_at_work": np.zeros(total),
        "clock_at": np.zeros(count),
        "clock_work": np.zeros(count),
        "clock_rate": np.zeros(count),
        "seen_at": np.full(count, -np.inf),
        "jobs_here": zeros.copy(),
        "heavy_here": zeros.copy(),
        "memory_heavy_here": zeros.copy(),
    }


def _slowdowns(laws: Sequence[ContentionLaw], slots: int) -> Array:
    """Return each law as a table, by the numbers of heavy and of memory-heavy jobs."""
    counts = range(slots + 1)
    tables = [
        [[law.slowdown(Load(slots, heavy, memory)) for memory in counts] for heavy in counts]
        for law in laws
    ]
    return np.array(tables).reshape(len(laws), slots + 1, slots + 1)


def _matching(jobs: Sequence[Job], builders: Sequence[Builder]) -> dict[str, Any]:
    """Number the lanes of the jobs and the groups of the builders; say which serve which."""
    lanes: dict[Platform, int] = {}
    lane = [lanes.setdefault(job.platform.normalised(), len(lanes)) for job in jobs]
    groups: dict[tuple[Any, ...], int] = {}
    kinds = [(builder.processors, builder.virtualized) for builder in builders]
    group = [groups.setdefault(kind, len(groups)) for kind in kinds]
    serves = [
        [platform.runs_on(processors, virtualized=virtualized) for platform in lanes]
        for processors, virtualized in groups
    ]
    of_lane = np.array(lane, np.int64)
    waiting_at_most = np.bincount(of_lane, minlength=len(lanes))
    return {
        "lane": of_lane,
        "group": np.array(group, np.int64),
        "serves": np.array(serves, np.bool_).reshape(len(groups), len(lanes)),
        "queue": np.empty(len(jobs), np.int64),
        "queue_begins": np.cumsum(waiting_at_most) - waiting_at_most,
        "waiting": np.zeros(len(lanes), np.int64),
        "free": keyed(len(builders), max(1, len(groups))),
    }


def _results(jobs: int) -> dict[str, Array]:
    return {
        "dispatched_at": np.full(jobs, np.nan),
        "finished_at": np.full(jobs, np.nan),
        "builder": np.full(jobs, -1, np.int64),
        "slot": np.zeros(jobs, np.int64),
        "ended": np.empty(jobs, np.int64),
    }
