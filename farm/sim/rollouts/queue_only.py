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

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.state.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.sim.fast.kernel import native
from farm.sim.rollouts import loops
from farm.sim.rollouts.draws import ServiceTimes


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
    found = np.empty((len(ends), len(columns)))
    queues, free = _queues(waiting, slots, set(columns.tolist())), _free_at(slots, ends)
    are_all = np.array_equal(columns, np.arange(len(waiting)))
    play = _played if (compiled := native.is_there()) else _played_plainly

    def some(batch: int) -> None:
        first = batch * TOGETHER
        rows = free[first : first + TOGETHER]
        drawn = np.empty((len(rows), len(waiting)))
        for number, row in enumerate(drawn, first):
            times.of(number, row)
        dispatched = play(queues, drawn, rows)
        part = dispatched[:, :-1] if are_all else dispatched.take(columns, axis=1)
        found[first : first + TOGETHER] = part

    def done(batches: int) -> None:
        on_rollout(min(len(ends), batches * TOGETHER))

    threads = os.cpu_count() or 1 if compiled else 1
    each(some, -(-len(ends) // TOGETHER), done, threads)
    return found


def _played(queues: loops.Queues, times: Floats, free: Floats) -> Floats:
    """Return when each job is dispatched, and infinity behind them: by rollout."""
    going, dispatched = _beginning(queues, free)
    native.Call("empty", queues, times, free, going, dispatched)()
    return dispatched


def _played_plainly(queues: loops.Queues, times: Floats, free: Floats) -> Floats:
    """Do the same on lists, in Python."""
    going, dispatched = _beginning(queues, free)
    rows = dispatched.tolist()
    lists = loops.Queues(*map(np.ndarray.tolist, queues)), times.tolist(), free.tolist()
    loops.empty(*lists, loops.RolloutState(*map(np.ndarray.tolist, going)), rows)
    return np.array(rows)


def _beginning(queues: loops.Queues, free: Floats) -> tuple[loops.RolloutState, Floats]:
    count, jobs = len(free), len(queues.jobs)
    going = loops.RolloutState(
        heads=np.tile(queues.ends - np.diff(queues.ends, prepend=0), (count, 1)),
        left=np.full(count, queues.matters.sum()),
        at=np.full(count, -np.inf),
        tie=np.zeros(count, np.int64),
        losers_at=np.full(free.shape, -np.inf),
        losers_tie=np.zeros(free.shape, np.int64),
    )
    return going, np.full((count, jobs + 1), np.inf)


#: rollouts that one call plays: four keep a processor busy, and their slots in its nearest cache
TOGETHER = 4
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
    free = np.full((len(ends), _leaves(slots)), np.inf)
    for place, slot in enumerate(slots):
        free[:, place] = slot.free_at if slot.held_by is None else ends[:, slot.held_by]
        if slot.held_by is not None and slot.cleaning:
            free[:, place] += slot.cleaning
    return free


def _queues(
    waiting: Sequence[JobRecord], slots: Sequence[FreeSlot], wanted: set[int]
) -> loops.Queues:
    lanes: dict[Platform, list[int]] = {}
    for column, view in enumerate(waiting):
        lanes.setdefault(view.job.platform.normalised(), []).append(column)
    jobs = [column for lane in lanes.values() for column in lane]
    in_order = sorted(range(len(jobs)), key=lambda place: waiting[jobs[place]].key)
    leaves = _leaves(slots)
    known = {slot.builder.id: slot.builder for slot in slots}
    lanes_of = {
        name: [lane for lane, platform in enumerate(lanes) if one.can_run(platform)]
        for name, one in known.items()
    }
    served = [lanes_of[slot.builder.id] for slot in slots]
    return loops.Queues(
        jobs=np.array(jobs, np.int64),
        ends=np.cumsum([len(lane) for lane in lanes.values()], dtype=np.int64),
        ranks=np.argsort(in_order),
        matters=np.array([column in wanted for column in jobs], np.int64),
        served=np.array([lane for some in served for lane in some], np.int64),
        begins=np.cumsum([0, *map(len, served)], dtype=np.int64),
        speed=np.array([slot.builder.speed for slot in slots], np.float64),
        cleaning=np.array([slot.cleaning for slot in slots], np.float64),
        ties=_ties([slot.cleaning > 0 for slot in slots], leaves),
        first_ties=_ties([slot.held_by is None or slot.cleaning > 0 for slot in slots], leaves),
    )


def _leaves(slots: Sequence[FreeSlot]) -> int:
    """Return the least 2^n that are as many as the slots; what is added never comes free."""
    return 1 << max(0, len(slots) - 1).bit_length()


def _ties(late: Sequence[bool], leaves: int) -> NDArray[np.int64]:
    """Return ranks of slots at one instant: attempts end first, then builders join or are clean."""
    places = np.arange(leaves)
    places[: len(late)] += leaves * np.array(late, np.int64)
    return places
