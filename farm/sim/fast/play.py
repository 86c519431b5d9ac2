"""Builders as arrays, and the play of a load on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from farm.core.contention.laws import ContentionLaw
from farm.core.contention.laws import Load as LoadHere
from farm.core.dispatching.balancers import RANKINGS, Ranking
from farm.core.errors import InputError
from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec
from farm.sim.fast import kernel, layout
from farm.sim.fast.heaps import Array, keyed
from farm.sim.fast.load import Load
from farm.sim.fast.many import play_each

Kinds = Mapping[tuple[tuple[str, ...], bool], int]
"""Groups of builders by (processors, virtualized), numbered."""

#: notes of a job (submitted, dispatched, started, finished, ended, cleaned), and of a builder
NOTES_OF_A_JOB, NOTES_OF_A_BUILDER = 6, 1


class Played(msgspec.Struct):
    """A play that is over: its values, and the jobs and builders that they are of."""

    farm: layout.Farm
    load: Load
    builders: Sequence[Builder]


def play(
    load: Load,
    pools: Sequence[PoolSpec],
    ranking: Ranking,
    *,
    ends_at: float = 0.0,
    noted: bool = False,
) -> Played | None:
    """Play a load on a farm; None: jobs are to be given up, which only the reference does.

    ``coverage`` has found nothing against it. ``noted``: the story will be asked for.
    """
    builders = list(_builders(pools))
    notes = 3 + NOTES_OF_A_JOB * len(load.jobs) + NOTES_OF_A_BUILDER * len(builders) if noted else 0
    farm = _farm(load, pools, builders, notes)
    if kernel.play(farm, _number(ranking), ends_at) == layout.HOPELESS:
        return None
    return Played(farm, load, builders)


def ends_of_each(loads: Sequence[Load], pools: Sequence[PoolSpec], ranking: Ranking) -> Array:
    """Play loads of one size, in batches of the same instants, each on a farm of its own.

    Returns the instant at which each job ends (s), by load and job; without the interpreter lock.
    Raises InputError where jobs are to be given up.
    """
    farm = _copy(_farm(loads[0], pools, list(_builders(pools)), 0))
    fresh = _copy(farm)
    columns = np.array([load.columns for load in loads])
    orders = np.array([load.in_order for load in loads])
    ends = np.empty(columns.shape)
    if play_each(farm, fresh, columns, orders, _number(ranking), ends) == layout.HOPELESS:
        raise InputError("found jobs that no builder can run; allowed: none")
    return ends


def _copy(part: Any) -> Any:
    return part.copy() if isinstance(part, np.ndarray) else type(part)(*map(_copy, part))


def _number(ranking: Ranking) -> int:
    return layout.LONGEST_IDLE if ranking is RANKINGS["longest-idle"] else layout.JENKINS


def _farm(
    load: Load, pools: Sequence[PoolSpec], builders: Sequence[Builder], notes: int
) -> layout.Farm:
    """Return the farm as it is before anything happened, with room for so many notes."""
    jobs, slots, kinds = len(load.jobs), _slots(builders), _kinds(builders)
    return layout.Farm(
        jobs=load.columns.copy(),
        in_order=load.in_order,
        batches=load.batch_columns,
        builders=_builder_columns(pools, builders, kinds),
        slots=slots,
        lanes=_lanes(load.columns["lane"], len(load.platforms)),
        queue=np.empty(jobs, np.int64),
        serves=_serves(load.platforms, kinds),
        slowdown=_slowdowns(_laws(pools), max((b.slots for b in builders), default=0)),
        free=keyed(len(builders), len(kinds)),
        agenda=keyed(len(slots) + len(builders), 1),
        counts=np.zeros(layout.COUNTS, np.int64),
        instants=np.array([0.0, 0.0, np.inf, np.inf]),
        begun=np.empty(jobs, np.int64),
        ended=np.empty(jobs, np.int64),
        notes=np.zeros(notes, layout.NOTE),
    )


def _builders(pools: Sequence[PoolSpec]) -> Iterator[Builder]:
    """Yield the farm's builders, in the order in which the scheduler requests them."""
    index = 0
    for pool in pools:
        for number in range(1, pool.builders + 1):
            index += 1
            yield pool.builder(number, index)


def _builder_columns(pools: Sequence[PoolSpec], builders: Sequence[Builder], kinds: Kinds) -> Array:
    made = np.zeros(len(builders), layout.BUILDER)
    for name in ("index", "slots", "speed", "takes_jobs"):
        made[name] = [getattr(builder, name) for builder in builders]
    made["first_slot"][1:] = np.cumsum(made["slots"])[:-1]
    made["seen_at"] = -np.inf
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
    made = np.zeros(sum(counts), layout.SLOT)
    made["builder"] = np.repeat(np.arange(len(builders)), counts)
    made["job"] = layout.FREE
    return made


def _laws(pools: Sequence[PoolSpec]) -> tuple[ContentionLaw, ...]:
    return tuple([pool.law for pool in pools if pool.law is not None])


@lru_cache(maxsize=64)
def _slowdowns(laws: tuple[ContentionLaw, ...], slots: int) -> Array:
    """Return each law as a table, by the numbers of heavy and of memory-heavy jobs."""
    counts = range(slots + 1)
    tables = [
        [[law.slowdown(LoadHere(slots, heavy, memory)) for memory in counts] for heavy in counts]
        for law in laws
    ]
    return np.array(tables).reshape(len(laws), slots + 1, slots + 1)


def _kinds(builders: Sequence[Builder]) -> Kinds:
    """Number the groups of builders, in the order in which they appear."""
    kinds = dict.fromkeys((builder.processors, builder.virtualized) for builder in builders)
    return {kind: number for number, kind in enumerate(kinds)}


def _serves(platforms: Sequence[Platform], kinds: Kinds) -> Array:
    """Say, by group of builders and by platform, which may run the jobs of which."""
    made = np.zeros((len(kinds), len(platforms)), np.bool_)
    for (processors, virtualized), group in kinds.items():
        made[group] = [one.runs_on(processors, virtualized=virtualized) for one in platforms]
    return made


def _lanes(lane_of: Array, lanes: int) -> Array:
    """Give each lane room in the queue for all of its jobs."""
    made = np.zeros(lanes, layout.LANE)
    counts = np.bincount(lane_of, minlength=lanes)
    made["begin"] = np.cumsum(counts) - counts
    return made
