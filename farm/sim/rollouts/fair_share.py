"""The fast method of rollouts under fair share: trees that only get empty.

As ``queue_only``, for what it covers: each slot serves one tree with waiting jobs, no two jobs
share an execution, all are of one level, and no slot is sticky. Then a free slot's next job depends
on the slots that execute something in each node, and on nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import ldexp

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.core.dispatching.matching import Lane
from farm.core.model import Platform
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.accounting import Invocation
from farm.core.queues.fair_share.node_score import weight
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import JobRecord
from farm.sim.fast.kernel import native
from farm.sim.fast.kernel.heaps import ENTRY, HEAP, Keyed
from farm.sim.rollouts import fair_loops
from farm.sim.rollouts.draws import ServiceTimes
from farm.sim.rollouts.queue_only import FreeSlot, OnRollout, each

MOST_URGENT = 40_000
"""Priorities and weights up to which a score is a number in range."""


class _Lane(msgspec.Struct, frozen=True):
    """A tree, and the slots that serve it, as they are at the beginning."""

    tree: fair_loops.Tree
    going: fair_loops.TreeState
    slots: fair_loops.Slots
    #: by slot: the column of the attempt that it runs (-1: none), and else when it comes free
    held_by: NDArray[np.int64]
    free_at: Floats

    def play(self, ends: Floats, times: Floats, dispatched: Floats) -> None:
        """Roll it out once; the arguments are by attempt, and twice by waiting job."""
        ends = np.append(ends, np.nan)  # what -1 refers to
        free = np.where(self.held_by < 0, self.free_at, ends[self.held_by])
        losers = np.full(len(free), -np.inf), np.zeros(len(free), np.int64)
        slots = self.slots._replace(nodes=self.slots.nodes.copy())
        going = self.going._replace(
            **{
                name: one.copy() for name, one in self.going._asdict().items() if name != "children"
            },
            children=Keyed(*(one.copy() for one in self.going.children)),
        )
        arguments = self.tree, going, slots, times, free, losers, dispatched
        native.Call("share", *arguments)()


def roll(
    scheduler: Scheduler,
    waiting: Sequence[JobRecord],
    attempts: Sequence[JobRecord],
    slots: Sequence[FreeSlot],
    specs: Sequence[PoolSpec],
    ends: Floats,
    times: ServiceTimes,
    columns: NDArray[np.int64],
    on_rollout: OnRollout,
) -> Floats | None:
    """Return when some of the waiting jobs are dispatched, as ``queue_only.roll``.

    None: the farm is not covered. ``scheduler`` is the farm, restored. The kernel must be there.
    """
    records = (*waiting, *attempts)
    if any(state.leader or state.followers for state in scheduler.jobs.values()):
        return None
    if len({record.job.level for record in waiting}) > 1 or any(s.pickup_time for s in specs):
        return None
    if any(abs(record.job.priority) > MOST_URGENT for record in records):
        return None
    trees = [(lane.platform, tree) for lane, tree in _with_jobs(scheduler)]
    if any(tree.sticky or _most(tree) > MOST_URGENT for _, tree in trees):
        return None
    serving = _serving(slots, [platform for platform, _ in trees])
    if serving is None:
        return None
    wanted = set(columns.tolist())
    column_of = {record.job.id: column for column, record in enumerate(waiting)}
    lanes = [
        _lane(tree, [slots[n] for n in some], scheduler, attempts, column_of, wanted)
        for (_, tree), some in zip(trees, serving, strict=True)
    ]
    found = np.empty((len(ends), len(columns)))

    def play(number: int) -> None:
        drawn, dispatched = times.of(number), np.full(len(waiting) + 1, np.inf)
        for lane in lanes:
            lane.play(ends[number], drawn, dispatched)
        found[number] = dispatched.take(columns)

    each(play, len(ends), on_rollout, os.cpu_count() or 1)
    return found


def _with_jobs(scheduler: Scheduler) -> list[tuple[Lane, FairShareQueue]]:
    return [pair for pair in scheduler.dispatcher.matching.with_trees() if pair[0].waiting]


def _most(tree: FairShareQueue) -> int:
    return max(map(abs, tree.offsets.values()), default=0)


def _serving(slots: Sequence[FreeSlot], lanes: Sequence[Platform]) -> list[list[int]] | None:
    """Return the slots that serve each lane; None: one serves several."""
    found: list[list[int]] = [[] for _ in lanes]
    lanes_of: dict[str, list[int]] = {}
    for number, slot in enumerate(slots):
        builder = slot.builder
        if builder.id not in lanes_of:
            lanes_of[builder.id] = [n for n, one in enumerate(lanes) if builder.can_run(one)]
        mine = lanes_of[builder.id]
        if len(mine) > 1:
            return None
        for lane in mine:
            found[lane].append(number)
    return found


def _lane(
    tree: FairShareQueue,
    slots: Sequence[FreeSlot],
    scheduler: Scheduler,
    attempts: Sequence[JobRecord],
    column_of: dict[str, int],
    wanted: set[int],
) -> _Lane:
    nodes = list(tree.listing.nodes())
    place = {node.path: number for number, node in enumerate(nodes)}
    queues = [[one.states[0].job for one in node.queue.ordered()] for node in nodes]
    jobs = [job for queue in queues for job in queue]
    ends = np.cumsum([len(queue) for queue in queues], dtype=np.int64)
    priorities, priority_of = _coded([job.priority for job in jobs])
    offsets, offset_of = _coded([node.offset for node in nodes])
    numbers = [column_of[job.id] for job in jobs]
    weights = [[_weight(one + other) for other in offsets] for one in priorities]
    made = fair_loops.Tree(
        parents=np.array([-1] + [place[node.path[:-1]] for node in nodes[1:]], np.int64),
        offsets=offset_of,
        ends=ends,
        jobs=np.array(numbers, np.int64),
        matters=np.array([number in wanted for number in numbers], np.int64),
        priorities=priority_of,
        weights=np.array(weights, np.float64).reshape(len(priorities), len(offsets)),
    )
    running: list[int] = []
    for slot in slots:
        record = None if slot.held_by is None else attempts[slot.held_by]
        running.append(
            fair_loops.NOTHING if record is None else _node_of(record, tree, place, scheduler)
        )
    return _Lane(
        made,
        _going(nodes, made),
        fair_loops.Slots(
            speed=np.array([slot.builder.speed for slot in slots], np.float64),
            cleaning=np.array([slot.cleaning for slot in slots], np.float64),
            nodes=np.array(running, np.int64),
        ),
        np.array([-1 if slot.held_by is None else slot.held_by for slot in slots], np.int64),
        np.array([slot.free_at for slot in slots], np.float64),
    )


def _node_of(
    record: JobRecord, tree: FairShareQueue, place: dict[tuple[str, ...], int], scheduler: Scheduler
) -> int:
    """Return the node that a running attempt is charged to."""
    state = scheduler.jobs[record.job.id]
    return place[state.path] if state.lane.queue is tree else fair_loops.ELSEWHERE


def _going(nodes: Sequence[Invocation], tree: fair_loops.Tree) -> fair_loops.TreeState:
    count = len(nodes)
    by_start = sorted(range(count), key=lambda n: (nodes[n].last_start, nodes[n].serial))
    started = np.empty(count, np.int64)
    started[by_start] = np.arange(count)
    heaps = np.zeros(count, HEAP)
    sizes = np.bincount(tree.parents[1:], minlength=count)
    heaps["begin"] = np.cumsum(sizes) - sizes
    return fair_loops.TreeState(
        heads=np.concatenate([[0], tree.ends[:-1]]).astype(np.int64),
        executing=np.array([len(node.executing) for node in nodes], np.int64),
        started=started,
        priorities=np.zeros(count, np.int64),
        children=Keyed(np.empty(count, ENTRY), heaps, np.full(count, -1)),
    )


def _coded(values: Sequence[int]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct values, and the place of each one among them."""
    known: dict[int, int] = {}
    codes = [known.setdefault(value, len(known)) for value in values]
    return list(known), np.array(codes, np.int64)


def _weight(priority: int) -> float:
    """Return 2^(priority/100) with the digits that ``score`` gives it."""
    hundreds, factor = weight(priority)
    return ldexp(factor, hundreds)
