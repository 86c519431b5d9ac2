"""The fast lane of rollouts: plain queues that empty themselves onto slots, and nothing else.

While jobs wait, a slot that comes free takes the best of them at once. So without arrivals, fair
share, contention, failing matrices or builders that come and go, a rollout is one heap of the
instants at which slots come free: the same dispatches as the whole simulation gives, to the last
bit, at a fraction of a microsecond each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.core.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.sim.rollouts import loops
from farm.sim.rollouts.draws import Floats


class FreeSlot(msgspec.Struct, frozen=True):
    """A slot that will come free, and how its builder treats the jobs it then takes."""

    builder: Builder
    #: column of the attempt that holds it (among the running ones); None: free at ``free_at``
    held_by: int | None
    free_at: float
    #: cleaned for so long after each job
    cleaning: float


def slots_to_come(
    snapshot: FarmSnapshot,
    attempts: Sequence[JobRecord],
    specs: Sequence[PoolSpec],
) -> list[FreeSlot]:
    """Return every slot that takes jobs again, sooner or later, by builder and slot."""
    cleaning_times = {spec.name: spec.inter_job_time for spec in specs}
    boot_times = {spec.name: spec.boot_time for spec in specs}
    held = {(v.builder, v.slot): column for column, v in enumerate(attempts)}
    slots: list[FreeSlot] = []
    for view in snapshot.builders:
        if view.takes_jobs:
            slots.extend(_slots_of(view, held, cleaning_times, snapshot.at))
    for request in (asked for pool in snapshot.pools for asked in pool.requested.values()):
        builder = request.builder
        if builder.takes_jobs:
            boot_time = boot_times.get(builder.pool, 0.0) + builder.boot_delay
            joins_at = max(snapshot.at, request.at + boot_time)
            cleaning = cleaning_times.get(builder.pool, 0.0)
            slots.extend([FreeSlot(builder, None, joins_at, cleaning)] * builder.slots)
    slots.sort(key=lambda slot: slot.builder.index)
    return slots


def _slots_of(
    view: BuilderRecord,
    held: dict[tuple[str | None, int | None], int],
    cleaning_times: dict[str, float],
    at: float,
) -> list[FreeSlot]:
    builder = view.builder
    cleaning = cleaning_times.get(builder.pool, 0.0) if builder.cleans else 0.0
    slots = []
    for number in range(builder.slots):
        column = held.get((builder.id, number))
        free_at = at + cleaning if number in view.cleaning else at
        slots.append(FreeSlot(builder, column, free_at, cleaning))
    return slots


def roll(
    waiting: Sequence[JobRecord],
    slots: Sequence[FreeSlot],
    ends: Floats,
    times: Floats,
    wanted: set[int],
) -> Floats:
    """Return when each waiting job is dispatched: a row per rollout, a column per job and one more.

    ``ends`` has the instants at which the running attempts end, ``times`` the waiting jobs'
    service times; both a row per rollout. A job that no slot can take is dispatched at infinity,
    and so may be one that is not ``wanted``.
    """
    queues, begins = _queues(waiting, slots, wanted)
    numbers = np.arange(len(slots))
    late = np.array([slot.held_by is None or slot.cleaning > 0 for slot in slots], np.bool_)
    # at one instant attempts end first, then builders join and slots are clean again
    free = _free_at(slots, ends)
    ties = np.tile(numbers + len(slots) * late, (len(free), 1))
    heads = np.tile(begins, (len(free), 1))
    dispatched = np.full((len(times), len(waiting) + 1), np.inf)
    in_order = np.lexsort((ties, free))
    free = np.pad(
        np.take_along_axis(free, in_order, axis=1), ((0, 0), (0, 1)), constant_values=np.inf
    )
    arrays = (times, heads, in_order, free, ties, dispatched)
    empty, parts = loops.quickest(loops.empty, times.size), 1
    if empty is not loops.empty:
        parts = min(os.cpu_count() or 1, len(free))
    with ThreadPoolExecutor(parts) as threads:
        shares = zip(*(np.array_split(array, parts) for array in arrays), strict=True)
        list(threads.map(lambda share: empty(queues, *share), shares))
    return dispatched


def _free_at(slots: Sequence[FreeSlot], ends: Floats) -> Floats:
    free = np.empty((len(ends), len(slots)))
    for place, slot in enumerate(slots):
        free[:, place] = slot.free_at if slot.held_by is None else ends[:, slot.held_by]
        if slot.held_by is not None and slot.cleaning:
            free[:, place] += slot.cleaning
    return free


def _queues(
    waiting: Sequence[JobRecord], slots: Sequence[FreeSlot], wanted: set[int]
) -> tuple[loops.Queues, NDArray[np.int64]]:
    """Return the queues, and where each of their lanes begins."""
    lanes: dict[Any, list[int]] = {}
    for column, view in enumerate(waiting):
        lanes.setdefault(view.job.platform.normalised(), []).append(column)
    jobs = [column for lane in lanes.values() for column in lane]
    in_order = sorted(range(len(jobs)), key=lambda place: waiting[jobs[place]].key)
    sizes = np.array([len(lane) for lane in lanes.values()], np.int64)
    builders = {slot.builder.id: [slot.builder.can_run(one) for one in lanes] for slot in slots}
    queues = loops.Queues(
        jobs=np.array(jobs, np.int64),
        ends=np.cumsum(sizes),
        ranks=np.argsort(in_order),
        matters=np.array([column in wanted for column in jobs], np.int64),
        serves=np.array([builders[s.builder.id] for s in slots]).reshape(len(slots), len(lanes)),
        speed=np.array([slot.builder.speed for slot in slots], np.float64),
        cleaning=np.array([slot.cleaning for slot in slots], np.float64),
        ties=np.array([n + len(slots) * (s.cleaning > 0) for n, s in enumerate(slots)], np.int64),
    )
    return queues, queues.ends - sizes
