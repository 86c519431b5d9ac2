"""Jobs and builders as arrays: the values that the kernel plays with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

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
    slots = _slots(builders)
    platforms = list(dict.fromkeys(job.platform.normalised() for job in jobs))
    columns = _job_columns(jobs, platforms, batches)
    in_order = _order(rules, jobs, estimates, columns["submitted_at"])
    columns["order"][in_order] = np.arange(len(jobs))
    farm = kernel.Farm(
        jobs=columns,
        in_order=in_order,
        batches=_batch_columns(batches),
        builders=_builder_columns(pools, builders),
        slots=slots,
        lanes=_lanes(columns["lane"], len(platforms)),
        queue=np.empty(len(jobs), np.int64),
        serves=_serves(platforms, builders),
        slowdown=_slowdowns(_laws(pools), max((b.slots for b in builders), default=0)),
        free=keyed(len(builders), len(_kinds(builders))),
        agenda=keyed(len(slots) + len(builders), 1),
        counts=np.zeros(kernel.COUNTS, np.int64),
        instants=np.array([0.0, 0.0, np.inf, np.inf]),
        begun=np.empty(len(jobs), np.int64),
        ended=np.empty(len(jobs), np.int64),
        notes=np.zeros(notes, kernel.NOTE),
    )
    longest_idle = rules.ranking is RANKINGS["longest-idle"]
    ranking = kernel.LONGEST_IDLE if longest_idle else kernel.JENKINS
    if kernel.play(farm, ranking, ends_at) == kernel.HOPELESS:
        return None
    return Played(farm, batches, jobs, builders, estimates)


def _job_columns(jobs: Sequence[Job], platforms: Sequence[Platform], batches: Batches) -> Array:
    made = np.zeros(len(jobs), kernel.JOB)
    made["work"] = [job.service_time for job in jobs]
    made["heavy"] = [job.heavy for job in jobs]
    made["memory_heavy"] = [job.memory_heavy for job in jobs]
    made["submitted_at"] = np.repeat([at for at, _ in batches], [len(some) for _, some in batches])
    if len(platforms) > 1:
        numbers = {platform: number for number, platform in enumerate(platforms)}
        made["lane"] = [numbers[job.platform.normalised()] for job in jobs]
    return made


def _batch_columns(batches: Batches) -> Array:
    made = np.zeros(len(batches) + 1, kernel.BATCH)
    made["at"][:-1] = [at for at, _ in batches]
    made["begin"][1:] = np.cumsum([len(together) for _, together in batches])
    return made


def _lanes(lane_of: Array, lanes: int) -> Array:
    """Give each lane room in the queue for all of its jobs."""
    made = np.zeros(lanes, kernel.LANE)
    counts = np.bincount(lane_of, minlength=lanes)
    made["begin"] = np.cumsum(counts) - counts
    return made


def _order(
    rules: SchedulingRules, jobs: Sequence[Job], estimates: Sequence[float], submitted_at: Array
) -> Array:
    """Return the jobs in the order of their sort keys: (-level, the policy's key, serial).

    A key is constant, and whatever it is made of is known when the job is: so all are sorted now.
    """
    made = zip(jobs, estimates, submitted_at.tolist(), strict=True)
    keys = [rules.policy(*one, serial) for serial, one in enumerate(made, 1)]
    parts: Array = np.array(keys, np.float64).reshape(len(jobs), -1)
    return np.lexsort((*parts.T[::-1], np.array([-job.level for job in jobs])))


def _builders(pools: Sequence[PoolSpec]) -> Iterator[Builder]:
    """Yield the farm's builders, in the order in which the scheduler requests them."""
    index = 0
    for pool in pools:
        for number in range(1, pool.builders + 1):
            index += 1
            yield pool.builder(number, index)


def _builder_columns(pools: Sequence[PoolSpec], builders: Sequence[Builder]) -> Array:
    made = np.zeros(len(builders), kernel.BUILDER)
    for name in ("index", "slots", "speed", "takes_jobs"):
        made[name] = [getattr(builder, name) for builder in builders]
    made["first_slot"][1:] = np.cumsum(made["slots"])[:-1]
    made["seen_at"] = -np.inf
    kinds = _kinds(builders)
    made["group"] = [kinds[builder.processors, builder.virtualized] for builder in builders]
    counts, laws = [pool.builders for pool in pools], _laws(pools)
    for name, values in (
        ("joins_at", [pool.boot_time for pool in pools]),
        ("inter_job_time", [pool.inter_job_time for pool in pools]),
        ("law", [-1 if pool.law is None else laws.index(pool.law) for pool in pools]),
    ):
        made[name] = np.repeat(values, counts)
    return made


def _slots(builders: Sequence[Builder]) -> Array:
    counts = [builder.slots for builder in builders]
    made = np.zeros(sum(counts), kernel.SLOT)
    made["builder"] = np.repeat(np.arange(len(builders)), counts)
    made["job"] = kernel.FREE
    return made


def _laws(pools: Sequence[PoolSpec]) -> list[ContentionLaw]:
    return [pool.law for pool in pools if pool.law is not None]


def _slowdowns(laws: Sequence[ContentionLaw], slots: int) -> Array:
    """Return each law as a table, by the numbers of heavy and of memory-heavy jobs."""
    counts = range(slots + 1)
    tables = [
        [[law.slowdown(Load(slots, heavy, memory)) for memory in counts] for heavy in counts]
        for law in laws
    ]
    return np.array(tables).reshape(len(laws), slots + 1, slots + 1)


def _kinds(builders: Sequence[Builder]) -> dict[tuple[tuple[str, ...], bool], int]:
    """Number the groups of builders, in the order in which they appear."""
    kinds = dict.fromkeys((builder.processors, builder.virtualized) for builder in builders)
    return {kind: number for number, kind in enumerate(kinds)}


def _serves(platforms: Sequence[Platform], builders: Sequence[Builder]) -> Array:
    """Say, by group of builders and by platform, which may run the jobs of which."""
    kinds = list(_kinds(builders))
    made = np.zeros((len(kinds), len(platforms)), np.bool_)
    for group, (processors, virtualized) in enumerate(kinds):
        made[group] = [one.runs_on(processors, virtualized=virtualized) for one in platforms]
    return made
