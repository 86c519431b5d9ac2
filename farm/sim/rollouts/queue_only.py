"""The fast method of rollouts: plain queues that only get empty.

While jobs wait, a slot that becomes free gets the best of them at once. So without arrivals, fair
share, contention, failing matrices or builders that come and go, a rollout is one heap of the
instants at which slots become free: the same dispatches as in the whole simulation, to the last
bit, at a fraction of a microsecond each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.sim.fast.kernel import native
from farm.sim.rollouts import loops
from farm.sim.rollouts.draws import Floats, ServiceTimes


class FreeSlot(msgspec.Struct, frozen=True):
    """A slot that will become free, and how its builder treats its next jobs."""

    builder: Builder
    #: column of its present attempt (among the running ones); None: free at ``free_at``
    held_by: int | None
    free_at: float
    #: cleaned for this long after each job
    cleaning: float


def slots_to_come(
    snapshot: FarmSnapshot,
    attempts: Sequence[JobRecord],
    specs: Sequence[PoolSpec],
) -> list[FreeSlot]:
    """Return every slot that will accept jobs again, by builder and slot."""
    # a slot is held before its job as it is after it
    cleaning_times = {spec.name: spec.inter_job_time + spec.pickup_time for spec in specs}
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
    times: ServiceTimes,
    columns: NDArray[np.int64],
    on_rollout: OnRollout,
) -> Floats:
    """Return when some of the waiting jobs are dispatched: a row per rollout, a column per job.

    ``ends`` has the instants at which the running attempts end: a row per rollout. A job that no
    slot can run is dispatched at infinity, and so is a missing one (-1).
    """
    found, free = np.empty((len(ends), len(columns))), _free_at(slots, ends)
    compiled = native.is_there()
    sequence: Any = np.asarray if compiled else np.ndarray.tolist
    queues, begins = _queues(waiting, slots, set(columns.tolist()))
    queues = loops.Queues(*map(sequence, queues))

    def play(number: int) -> None:
        row = sequence(times.of(number)), sequence(free[number]), sequence(begins.copy())
        nodes = np.full(len(slots), -np.inf), np.zeros(len(slots), np.int64)
        dispatched = sequence(np.full(len(waiting) + 1, np.inf))
        arguments = queues, *row, tuple(map(sequence, nodes)), dispatched
        native.Call("empty", *arguments)() if compiled else loops.empty(*arguments)
        found[number] = np.asarray(dispatched).take(columns)

    each(play, len(ends), on_rollout, os.cpu_count() or 1 if compiled else 1)
    return found


OnRollout = Callable[[int], object]
"""Told how many rollouts are done."""


def each(play: Callable[[int], None], count: int, on_rollout: OnRollout, threads: int) -> None:
    """Play each rollout by its number; an interrupt ends this after those in progress."""
    interrupted = Event()

    def some(first: int) -> None:
        for number in range(first, count, threads):
            if interrupted.is_set():
                return
            play(number)
            if first == 0:
                on_rollout(min(count, number + threads))

    with ThreadPoolExecutor(threads) as pool:
        try:
            list(pool.map(some, range(threads)))
        except BaseException:
            interrupted.set()
            raise


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
    """Return the queues, and the beginning of each of their lanes."""
    lanes: dict[Platform, list[int]] = {}
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
        serves=np.array([one for slot in slots for one in builders[slot.builder.id]], np.bool_),
        speed=np.array([slot.builder.speed for slot in slots], np.float64),
        cleaning=np.array([slot.cleaning for slot in slots], np.float64),
        ties=_ties([slot.cleaning > 0 for slot in slots]),
        first_ties=_ties([slot.held_by is None or slot.cleaning > 0 for slot in slots]),
    )
    return queues, queues.ends - sizes


def _ties(late: Sequence[bool]) -> NDArray[np.int64]:
    """Return ranks of slots at one instant: attempts end first, then builders join or are clean."""
    return np.arange(len(late)) + len(late) * np.array(late, np.int64)
