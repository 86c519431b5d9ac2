"""Which queues a builder serves, and which builders serve a queue.

Builders with the same processors and virtualization form a *group*; each platform that jobs
require has a *lane*: its queue. A farm has few groups and few lanes, so finding the best builder
for a job, or the best job for a builder, means comparing the tops of a few heaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from math import inf

from farm.core.dispatching.balancers import FreeBuilders, Ranking
from farm.core.model import Builder, Platform
from farm.core.queues.fair_share.node_score import score
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.heap import UpdatableHeap
from farm.core.queues.plain import PlatformQueue
from farm.core.state.working_state import BuilderState, JobState, Slot


class Lane:
    """The jobs waiting for one platform, and the groups of builders that may run them."""

    __slots__ = ("groups", "name", "platform", "queue", "waiting")

    #: holds the heavy jobs only (heavy-light)
    heavy = False

    def __init__(self, platform: Platform, queue: PlatformQueue) -> None:
        self.platform = platform
        self.name = str(platform)
        self.queue = queue
        #: how many jobs wait in the queue
        self.waiting = 0
        self.groups: list[BuilderGroup] = []

    def best_builder(self) -> BuilderState | None:
        """Return the free builder that the balancer prefers; the lowest index on a tie."""
        groups = self.groups
        if len(groups) == 1:
            return groups[0].free.best()
        found = [state for group in groups if (state := group.free.best()) is not None]
        return min(found, key=by_rank) if found else None

    def free_builders(self, count: int) -> list[BuilderState]:
        """Return free builders that may take its jobs, the best ``count`` of each group."""
        return [state for group in self.groups for state in group.free.first(count)]

    def open_slots(self) -> list[Slot]:
        """Return the slots that wait for a job, the longest active builder's first."""
        with_room = [state for group in self.groups for state in group.free.all()]
        with_room.sort(key=lambda b: (b.active_at, b.builder.index))
        return [s for b in with_room for s in b.slots if s.running is None and not s.cleaning]


class HeavyLane(Lane):
    """The heavy jobs of one platform, which only builders with room for them may run."""

    __slots__ = ()

    heavy = True

    def best_builder(self) -> BuilderState | None:
        """Return the builder with the lowest load that has room for a heavy job."""
        heaps = [group.calm for group in self.groups]
        found = [(heap.key(best), best) for heap in heaps if (best := heap.first()) is not None]
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def free_builders(self, count: int) -> list[BuilderState]:
        """Return builders that have room for a heavy job, the best ``count`` of each group."""
        return [builder for group in self.groups for builder in group.calm.ordered()[:count]]


def by_rank(state: BuilderState) -> tuple[float, int]:
    """Return what the balancer compares free builders by: the rank, then the index."""
    return inf if state.rank is None else state.rank, state.builder.index


def free_slot(builder: BuilderState) -> Slot:
    """Return the lowest-numbered free slot of a builder."""
    if not builder.busy:
        return builder.slots[0]
    for slot in builder.slots:
        if slot.running is None and not slot.cleaning:
            return slot
    raise LookupError(builder.builder.id)


class BuilderGroup:
    """The builders of one kind: same processors, same virtualization.

    What follows ``free`` is filled by the rules that hold jobs back.
    """

    __slots__ = ("calm", "ends", "free", "lanes", "light_lanes", "sample", "slots")

    def __init__(self, sample: Builder, ranking: Ranking) -> None:
        self.sample = sample
        self.lanes: list[Lane] = []
        self.light_lanes: list[Lane] = []
        self.free = FreeBuilders(ranking)
        #: builders with a free slot that are not overloaded, by load, rank and index
        self.calm: UpdatableHeap[BuilderState] = UpdatableHeap()
        #: in order, when busy slots are expected to be free (farm time, s), and the numbers of
        #: their dispatches; the slots by these numbers
        self.ends: list[tuple[float, int]] = []
        self.slots: dict[int, Slot] = {}

    def all_slots(self) -> list[Slot]:
        """Return every slot of the group's builders, in order of joining."""
        return [slot for state in self.free.members() for slot in state.slots]


class Matching:
    """The lanes and groups of a farm, created as platforms and builders appear.

    ``by_weight``: heavy jobs have lanes of their own, which ``heavy_first`` lets precede the others
    of their level; ``by_speed``: builders of different speeds are in different groups.
    """

    __slots__ = (
        "_by_speed",
        "_heavy_first",
        "_make_queue",
        "_ranking",
        "by_weight",
        "groups",
        "lanes",
    )

    def __init__(
        self,
        ranking: Ranking,
        make_queue: Callable[[], PlatformQueue],
        *,
        by_weight: bool = False,
        heavy_first: bool = False,
        by_speed: bool = False,
    ) -> None:
        self._ranking = ranking
        self._make_queue = make_queue
        self._heavy_first = heavy_first
        self._by_speed = by_speed
        light: dict[Platform, Lane] = {}
        #: the lanes of light and of heavy jobs, by platform
        self.by_weight: tuple[dict[Platform, Lane], ...] = (light, {} if by_weight else light)
        #: all lanes, in the order in which their platforms were first seen; other packages ask
        #: the methods below
        self.lanes: list[Lane] = []
        #: in the order in which their first builders joined
        self.groups: dict[Hashable, BuilderGroup] = {}

    def lane(self, platform: Platform, *, heavy: bool = False) -> Lane:
        """Return the lane of a platform (unspecified virtualization: the virtual one)."""
        by_platform = self.by_weight[heavy]
        found = by_platform.get(platform)
        if found is not None:
            return found
        normal = platform.normalised()
        if normal != platform:
            return self.lane(normal, heavy=heavy)
        kind = HeavyLane if heavy and by_platform is not self.by_weight[False] else Lane
        found = by_platform[platform] = kind(platform, self._make_queue())
        self.lanes.append(found)
        for group in self.groups.values():
            self._connect(found, group)
        return found

    def forget_unused(self) -> None:
        """Remove the lanes in which no job waits and that no builder has ever served.

        Call it between two events; no decision depends on them.
        """
        self.lanes[:] = [lane for lane in self.lanes if lane.groups or lane.waiting]
        for lanes in self.by_weight:
            for platform in [p for p, lane in lanes.items() if not (lane.groups or lane.waiting)]:
                del lanes[platform]

    def waiting(self) -> int:
        """Count the waiting jobs (jobs that share an execution once)."""
        return sum(lane.waiting for lane in self.lanes)

    def depths(self) -> Counter[Platform]:
        """Count the waiting jobs of each platform seen so far, the first seen first."""
        depths = Counter[Platform]()
        for lane in self.lanes:  # a platform may have one for light jobs and one for heavy ones
            depths[lane.platform] += lane.waiting
        return depths

    def with_jobs(self) -> list[Lane]:
        """Return the lanes in which jobs wait."""
        return [lane for lane in self.lanes if lane.waiting]

    def with_trees(self) -> list[tuple[Lane, FairShareQueue]]:
        """Return the lanes that are shared fairly, with their queues."""
        return [(x, tree) for x in self.lanes if isinstance(tree := x.queue, FairShareQueue)]

    def served_by(self, builder: Builder) -> list[Lane]:
        """Return the lanes whose jobs such a builder may run."""
        return [lane for lane in self.lanes if builder.can_run(lane.platform)]

    def before(self, state: JobState, other: JobState) -> bool:
        """Return whether the head of one lane precedes that of another: O(depth · lanes).

        A builder of several platforms serves several lanes. With fair share, each has its own tree,
        and their heads compete as they would in one tree: at the first level where their paths
        differ, the invocation with the smaller (executing slots + 1) · 2^(priority/100) goes first,
        with slots counted over all lanes; on a tie the policy decides.
        """
        same_level = state.job.level == other.job.level
        if self._heavy_first and same_level and state.job.heavy != other.job.heavy:
            return state.job.heavy
        if not (state.path or other.path):
            return bool(state.key < other.key)
        if not same_level:
            return state.job.level > other.job.level
        mine, theirs = state.path, other.path
        for level, (one, another) in enumerate(zip(mine, theirs, strict=False), start=1):
            if one != another:
                ours = self._score(mine[:level], state.job.priority)
                others = self._score(theirs[:level], other.job.priority)
                return ours < others or (ours == others and bool(state.key < other.key))
        if len(mine) != len(theirs):
            return len(mine) < len(theirs)  # jobs queued in a node precede its children
        return bool(state.key < other.key)

    def _score(self, path: tuple[str, ...], priority: int) -> tuple[int, float]:
        trees = [tree for _, tree in self.with_trees()]
        executing = sum(tree.executing_in(path) for tree in trees)
        offset = trees[0].offsets.get(path, 0) if trees else 0
        return score(executing, priority + offset)

    def group(self, builder: Builder) -> BuilderGroup:
        """Return the group that a builder belongs to."""
        speed = builder.speed if self._by_speed else None
        key = (builder.processors, builder.virtualized, speed)
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = BuilderGroup(builder, self._ranking)
            for lane in self.lanes:
                self._connect(lane, found)
        return found

    @staticmethod
    def _connect(lane: Lane, group: BuilderGroup) -> None:
        if group.sample.can_run(lane.platform):
            lane.groups.append(group)
            group.lanes.append(lane)
            if not lane.heavy:
                group.light_lanes.append(lane)
