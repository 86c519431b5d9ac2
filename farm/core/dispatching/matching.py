"""Which queues a builder serves, and which builders serve a queue.

Builders with the same processors and virtualization form a *group*; each platform that jobs
require has a *lane*: its queue. A farm has few groups and few lanes, so finding the best builder
for a job, or the best job for a builder, means comparing the tops of a few heaps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf

from farm.core.dispatching.balancers import FreeBuilders, Ranking
from farm.core.model import Builder, Platform
from farm.core.queues.plain import PlatformQueue
from farm.core.state.working_state import BuilderState, Slot


class Lane:
    """The jobs waiting for one platform, and the groups of builders that may run them."""

    __slots__ = ("groups", "heavy", "platform", "queue", "waiting")

    def __init__(self, platform: Platform, queue: PlatformQueue) -> None:
        self.platform = platform
        self.queue = queue
        #: how many jobs wait in the queue
        self.waiting = 0
        self.groups: list[BuilderGroup] = []
        #: holds the heavy jobs only (heavy-light)
        self.heavy = False

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


def by_rank(state: BuilderState) -> tuple[float, int]:
    """Return what the balancer compares free builders by: the rank, then the index."""
    return inf if state.rank is None else state.rank, state.builder.index


class BuilderGroup:
    """The builders of one kind: same processors, same virtualization."""

    __slots__ = ("free", "lanes", "sample")

    def __init__(self, sample: Builder, ranking: Ranking) -> None:
        self.sample = sample
        self.lanes: list[Lane] = []
        self.free = FreeBuilders(ranking)

    def all_slots(self) -> list[Slot]:
        """Return every slot of the group's builders, in order of joining."""
        return [slot for state in self.free.members() for slot in state.slots]


class Matching:
    """The lanes and groups of a farm, created as platforms and builders appear.

    Subclasses sort the builders into finer groups, or the jobs into more lanes.
    """

    __slots__ = ("_make_queue", "_ranking", "by_weight", "groups", "lanes")

    def __init__(self, ranking: Ranking, make_queue: Callable[[], PlatformQueue]) -> None:
        self._ranking = ranking
        self._make_queue = make_queue
        lanes: dict[Platform, Lane] = {}
        #: the lanes of light and of heavy jobs, by platform: the same ones here
        self.by_weight: tuple[dict[Platform, Lane], dict[Platform, Lane]] = (lanes, lanes)
        #: all lanes, in the order in which their platforms were first seen
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
        found = by_platform[platform] = self._new_lane(platform, heavy=heavy)
        self.lanes.append(found)
        for group in self.groups.values():
            self._connect(found, group)
        return found

    def group(self, builder: Builder) -> BuilderGroup:
        """Return the group that a builder belongs to."""
        key = self._group_key(builder)
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = self._new_group(builder)
            for lane in self.lanes:
                self._connect(lane, found)
        return found

    def _new_lane(self, platform: Platform, *, heavy: bool) -> Lane:  # noqa: ARG002 - theirs
        return Lane(platform, self._make_queue())

    def _new_group(self, sample: Builder) -> BuilderGroup:
        return BuilderGroup(sample, self._ranking)

    def _group_key(self, builder: Builder) -> Hashable:
        return (builder.processors, builder.virtualized)

    def _connect(self, lane: Lane, group: BuilderGroup) -> None:
        if group.sample.can_run(lane.platform):
            lane.groups.append(group)
            group.lanes.append(lane)
