"""In which order the free slots of a node are taken: its own first, then those of its children."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from functools import cmp_to_key
from typing import Protocol, TypeVar

from farm.core.queues.fair_share.tree_snapshot import Instant
from farm.core.queues.heap import UpdatableHeap
from farm.core.state.working_state import Slot


class Child(Hashable, Protocol):
    """What the choice among the children of a node depends on."""

    #: running number of its creation
    serial: int

    @property
    def executing(self) -> Mapping[Slot, int]:
        """The slots that execute something at or below it."""

    @property
    def own_free(self) -> FreeSlots:
        """The free slots that belong to the child itself."""

    @property
    def last_end(self) -> Instant:
        """The latest end of an execution at or below it."""


Node = TypeVar("Node", bound=Child)


class FreeSlots:
    """The free slots of one node, in the order in which they are taken.

    They are followed by those of its children, the least used child's first.
    """

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: OrderedDict[Slot, None] = OrderedDict()

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def append(self, slot: Slot) -> None:
        """The slot became free just now."""
        self._slots[slot] = None

    def remove(self, slot: Slot) -> None:
        """The slot is taken or gone."""
        del self._slots[slot]

    def least_used(self, children: UpdatableHeap[Node]) -> Node | None:
        """Return the child, of those with free slots, whose slot is taken."""
        return children.first()


class SwappingFreeSlots(FreeSlots):
    """Upstream's order: taking one moves the last to its place (three are taken as 0, 2, 1).

    The choice of a child is upstream's too: by what its subtree executes and the child's *own*
    free slots, so that children whose free slots all lie deeper tie, and the one that ended first
    is taken.
    """

    __slots__ = ("_at", "_list")

    def __init__(self) -> None:
        super().__init__()
        self._list: list[Slot] = []
        self._at: dict[Slot, int] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._list)

    def __len__(self) -> int:
        return len(self._list)

    def append(self, slot: Slot) -> None:
        """The slot became free just now."""
        self._at[slot] = len(self._list)
        self._list.append(slot)

    def remove(self, slot: Slot) -> None:
        """The slot is taken or gone."""
        hole = self._at.pop(slot)
        last = self._list.pop()
        if last is not slot:
            self._list[hole] = last
            self._at[last] = hole

    def least_used(self, children: UpdatableHeap[Node]) -> Node | None:
        """Return the child, of those with free slots, whose slot is taken."""
        return min(children, key=cmp_to_key(_own_utilization), default=None)


def _own_utilization(left: Child, right: Child) -> int:
    """Compare two children by executing slots ÷ own free slots, multiplied out; never equal."""
    difference = len(left.executing) * len(right.own_free)
    difference -= len(right.executing) * len(left.own_free)
    if difference:
        return difference
    return -1 if (left.last_end, left.serial) < (right.last_end, right.serial) else 1
