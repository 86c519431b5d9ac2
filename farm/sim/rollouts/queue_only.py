"""The fast lane of rollouts: plain queues that empty themselves onto slots, and nothing else.

While jobs wait, a slot that comes free takes the best of them at once. So without arrivals, fair
share, contention, failing matrices or builders that come and go, a rollout is one heap of the
instants at which slots come free: the same dispatches as the whole simulation gives, to the last
bit, at a fraction of a microsecond each.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any

import msgspec
import numpy as np

from farm.core.model import Builder, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.snapshot import BuilderRecord, FarmSnapshot, JobRecord
from farm.sim.rollouts.draws import Floats

NEVER = float("inf")


class FreeSlot(msgspec.Struct, frozen=True):
    """A slot that will come free, and how its builder treats the jobs it then takes."""

    builder: Builder
    #: breaks ties of slots that come free at one instant: builder, then slot
    place: int
    #: column of the attempt that holds it (among the running ones); None: free at ``free_at``
    held_by: int | None
    free_at: float
    #: cleaned for so long after each job
    cleaning: float


class Lane(msgspec.Struct, frozen=True):
    """The waiting jobs of one platform in dispatch order, as columns of the draws."""

    platform: Platform
    columns: list[int]
    keys: list[Any]


def slots_to_come(
    snapshot: FarmSnapshot,
    attempts: Sequence[JobRecord],
    specs: Sequence[PoolSpec],
) -> list[FreeSlot]:
    """Return every slot that takes jobs again, sooner or later."""
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
            place = builder.index << 16
            slots.extend(
                FreeSlot(builder, place + number, None, joins_at, cleaning)
                for number in range(builder.slots)
            )
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
        slots.append(FreeSlot(builder, (builder.index << 16) + number, column, free_at, cleaning))
    return slots


def roll(lanes: Sequence[Lane], slots: Sequence[FreeSlot], ends: Floats, times: Floats) -> Floats:
    """Return when each waiting job is dispatched: a row per rollout, a column per job.

    ``ends`` has the instants at which the running attempts end, ``times`` the waiting jobs'
    service times; both a row per rollout. A job that no slot can take is dispatched at infinity.
    """
    dispatched = np.full(times.shape, NEVER)
    for members, able in _parts(lanes, slots):
        if not able:
            continue
        uniform = len({(slot.builder.speed, slot.cleaning) for slot in able}) == 1
        free = _free_at(able, ends)
        if len(members) == 1 and uniform:
            _roll_one(members[0], able[0], free, times, dispatched)
        else:
            _roll_several(members, able, free, times, dispatched)
    return dispatched


def _free_at(slots: Sequence[FreeSlot], ends: Floats) -> Floats:
    free = np.empty((len(ends), len(slots)))
    for place, slot in enumerate(slots):
        free[:, place] = slot.free_at if slot.held_by is None else ends[:, slot.held_by]
        if slot.held_by is not None and slot.cleaning:
            free[:, place] += slot.cleaning
    return free


def _roll_one(
    lane: Lane, sample: FreeSlot, free: Floats, times: Floats, dispatched: Floats
) -> None:
    """One queue on slots that are all alike: which of them is free first does not matter."""
    speed, cleaning, columns = sample.builder.speed, sample.cleaning, lane.columns
    for row in range(len(free)):
        heap = free[row].tolist()
        heapify(heap)
        spans = times[row, columns] / speed
        instants = []
        for span in spans.tolist():
            at = heap[0]
            instants.append(at)
            # added one after the other, as the world does
            heapreplace(heap, at + span + cleaning if cleaning else at + span)
        dispatched[row, columns] = instants


def _roll_several(
    lanes: Sequence[Lane],
    slots: Sequence[FreeSlot],
    free: Floats,
    times: Floats,
    dispatched: Floats,
) -> None:
    """Queues that share builders: a free slot takes the best head of those that it serves."""
    served = [[lane for lane in lanes if slot.builder.can_run(lane.platform)] for slot in slots]
    # at one instant attempts end first, then builders join and slots are clean again
    ranks = [int(slot.held_by is None or slot.cleaning > 0) for slot in slots]
    places = [slot.place for slot in slots]
    for row, instants in enumerate(free.tolist()):
        heap = list(zip(instants, ranks, places, range(len(slots)), strict=True))
        heapify(heap)
        queues = {id(lane): _Queue(lane) for lane in lanes}
        spans = times[row].tolist()
        while heap:
            at, _, place, number = heap[0]
            open_queues = [q for lane in served[number] if (q := queues[id(lane)]).head is not None]
            if not open_queues:
                heappop(heap)
                continue
            column = min(open_queues, key=_head).take()
            dispatched[row, column] = at
            slot = slots[number]
            free_at = at + spans[column] / slot.builder.speed
            if slot.cleaning:
                free_at += slot.cleaning
            heapreplace(heap, (free_at, int(slot.cleaning > 0), place, number))


class _Queue:
    """What is left of a lane in one rollout."""

    __slots__ = ("_lane", "_place", "head")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._place = 0
        #: key of the first job left; None: empty
        self.head: Any = lane.keys[0] if lane.keys else None

    def take(self) -> int:
        """Take the first job; return its column."""
        place, keys = self._place, self._lane.keys
        self._place = place + 1
        self.head = keys[place + 1] if place + 1 < len(keys) else None
        return self._lane.columns[place]


def _head(queue: _Queue) -> Any:
    return queue.head


def _parts(
    lanes: Sequence[Lane], slots: Sequence[FreeSlot]
) -> list[tuple[list[Lane], list[FreeSlot]]]:
    """Split the farm into parts that share no slot; slots that no job needs are left out."""
    parts: list[tuple[list[Lane], list[FreeSlot]]] = []
    for lane in lanes:
        able = [slot for slot in slots if slot.builder.can_run(lane.platform)]
        members = [lane]
        places = {slot.place for slot in able}
        apart = []
        for other_lanes, other_slots in parts:
            if places.isdisjoint(slot.place for slot in other_slots):
                apart.append((other_lanes, other_slots))
            else:
                members = [*other_lanes, *members]
                able.extend(s for s in other_slots if s.place not in places)
                places.update(s.place for s in other_slots)
        parts = [*apart, (members, able)]
    return parts
