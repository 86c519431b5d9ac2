"""Which queues a builder serves, and which builders serve a queue.

Builders with the same processors and virtualization form a *group*; each platform that a job may
ask for has a *lane*: its queue. A farm has few groups and few lanes, so finding the best builder
for a job, or the best job for a builder, is a look at the tops of a few heaps.
"""

from __future__ import annotations

from collections.abc import Callable

from farm.core.balancer import FreeBuilders, Ranking
from farm.core.model import Builder, Platform
from farm.core.platform_queue import PlatformQueue
from farm.core.state import BuilderState, Slot


class Lane:
    """The jobs waiting for one platform, and the groups of builders that may run them."""

    __slots__ = ("groups", "platform", "queue", "waiting")

    def __init__(self, platform: Platform, queue: PlatformQueue) -> None:
        self.platform = platform
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
        return min(found, key=_by_rank) if found else None


def _by_rank(state: BuilderState) -> tuple[float, int]:
    return state.rank, state.builder.index


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

    def open_slots(self) -> list[Slot]:
        """Return the slots that wait for a job, the longest active builder's first."""
        with_room = sorted(self.free.all(), key=lambda b: (b.active_at, b.builder.index))
        return [s for b in with_room for s in b.slots if s.running is None and not s.cleaning]


class Matching:
    """The lanes and groups of a farm, created as platforms and builders appear."""

    __slots__ = ("_groups", "_make_queue", "_ranking", "by_platform")

    def __init__(self, ranking: Ranking, make_queue: Callable[[], PlatformQueue]) -> None:
        self._ranking = ranking
        self._make_queue = make_queue
        self.by_platform: dict[Platform, Lane] = {}
        self._groups: dict[tuple[tuple[str, ...], bool], BuilderGroup] = {}

    @property
    def lanes(self) -> list[Lane]:
        """All lanes, in the order in which their platforms appeared."""
        return list(self.by_platform.values())

    @property
    def groups(self) -> list[BuilderGroup]:
        """All groups, in the order in which their first builders joined."""
        return list(self._groups.values())

    def lane(self, platform: Platform) -> Lane:
        """Return the lane of a platform (unspecified virtualization: the virtual one)."""
        found = self.by_platform.get(platform)
        if found is not None:
            return found
        normal = platform.normalised()
        if normal != platform:
            return self.lane(normal)
        found = self.by_platform[platform] = Lane(platform, self._make_queue())
        for group in self._groups.values():
            self._connect(found, group)
        return found

    def group(self, builder: Builder) -> BuilderGroup:
        """Return the group that a builder belongs to."""
        key = (builder.processors, builder.virtualized)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = BuilderGroup(builder, self._ranking)
            for lane in self.by_platform.values():
                self._connect(lane, found)
        return found

    @staticmethod
    def _connect(lane: Lane, group: BuilderGroup) -> None:
        if group.sample.can_run(lane.platform):
            lane.groups.append(group)
            group.lanes.append(lane)
