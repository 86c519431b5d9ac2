"""A node of the fair-share tree: an invocation to which waiting and running jobs are charged.

Counts named without "own" cover the node's whole subtree. A slot corresponds to a worker in
Buildbarn: "executing" counts slots, not builders.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cmp_to_key, lru_cache

import msgspec

from farm.core.policies import Key
from farm.core.queues.heap import UpdatableHeap
from farm.core.state.working_state import JobState, Slot

Instant = tuple[float, int]
"""A time and a running number, which orders what happens at the same time."""

Urgency = tuple[int, int, float, Instant, int]

_BASE = 2**0.01
#: b^100 is 2 in exact arithmetic; in binary64 it is slightly more, and that decides between "two
#: slots at priority 0" and "one at priority 100" (the more urgent one wins)
_PER_HUNDRED = _BASE**100 / 2


class Operation(msgspec.Struct, eq=False):
    """One execution's entry in one node, for which jobs of that node wait."""

    node: Invocation
    execution: Execution
    #: its key in the node's own queue
    key: Key
    level: int
    priority: int
    #: the jobs that wait for it: those of this node with the same action, oldest first
    states: list[JobState]

    def rekeyed(self, state: JobState) -> Operation:
        """Replace it by another operation, with the key and urgency of this job.

        This one stays unchanged: a kept order (``Replay``) may still need it.
        """
        job, places = state.job, self.execution.operations
        moved = Operation(
            self.node, self.execution, state.key, job.level, job.priority, self.states
        )
        places[places.index(self)] = moved
        return moved


class Execution(msgspec.Struct, eq=False):
    """What one slot runs once, on behalf of one operation per interested node."""

    operations: list[Operation] = []
    #: where it runs; None while it waits
    slot: Slot | None = None

    @property
    def leader(self) -> JobState:
        """The job in whose name it is dispatched."""
        state = self.operations[0].states[0]
        return state if state.leader is None else state.leader


def weight(priority: int) -> tuple[int, float]:
    """Return b^priority as (n, x): 2^n · x, with x near 1, so that no priority overflows."""
    hundreds, rest = divmod(priority, 100)
    return hundreds, float(_BASE**rest * _PER_HUNDRED**hundreds)


@lru_cache(maxsize=65536)
def score(executing: int, priority: int) -> tuple[int, float]:
    """Return (executing + 1) · 2^(priority/100) as a pair that compares like that number.

    ``priority`` is any int32; smaller is more urgent. Equal priorities with equal counts are
    exactly equal. The smaller score goes first.
    """
    hundreds, factor = weight(priority)
    mantissa, exponent = math.frexp((executing + 1) * factor)
    return hundreds + exponent, mantissa


def urgency(level: int, priority: int, executing: int, started: Instant, created: int) -> Urgency:
    """Return the key that sorts siblings with waiting jobs, the next one first.

    Static level, then score, then least recently started, then oldest node.
    """
    return (-level, *score(executing, priority), started, created)


#: this many leading items of an urgency express fairness; the rest makes siblings take turns
TIE = 3


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

    def least_used(self, children: UpdatableHeap[Invocation]) -> Invocation | None:
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

    def least_used(self, children: UpdatableHeap[Invocation]) -> Invocation | None:
        """Return the child, of those with free slots, whose slot is taken."""
        return min(children, key=cmp_to_key(_own_utilization), default=None)


def _own_utilization(one: Invocation, other: Invocation) -> int:
    ours, theirs = len(one.executing), len(other.executing)
    difference = ours * len(other.own_free) - theirs * len(one.own_free)
    if difference:
        return difference
    return -1 if (one.completed, one.created) < (other.completed, other.created) else 1


@dataclass(eq=False, slots=True)
class Invocation:
    """A node: its own queue, its children, and the running and idle slots below it."""

    path: tuple[str, ...]
    parent: Invocation | None
    #: latest start and latest end of an execution; a new node starts with its creation
    started: Instant
    own_free: FreeSlots
    completed: Instant = field(init=False)
    #: running number of its creation
    created: int = field(init=False)
    children: dict[str, Invocation] = field(default_factory=dict)
    queue: UpdatableHeap[Operation] = field(default_factory=UpdatableHeap)
    #: children with waiting operations, by urgency
    waiting_children: UpdatableHeap[Invocation] = field(default_factory=UpdatableHeap)
    #: waiting operations
    waiting: int = 0
    #: level and priority of the next operation (meaningless if none waits)
    level: int = 0
    priority: int = 0
    #: added to that priority among its siblings, for its weight
    offset: int = 0
    #: slots that execute something here, with the number of operations that each serves
    executing: dict[Slot, int] = field(default_factory=dict)
    #: slots whose last invocation is here and that run no job of this tree
    idle: int = 0
    #: those of them that wait for a job
    free: int = 0
    #: children with free slots, least used first
    free_children: UpdatableHeap[Invocation] = field(default_factory=UpdatableHeap)

    def __post_init__(self) -> None:
        self.completed, (_, self.created) = self.started, self.started

    @property
    def weighed(self) -> int:
        """Its priority among its siblings, with its weight."""
        return self.priority + self.offset

    @property
    def active(self) -> bool:
        """Whether anything waits or executes here."""
        return bool(self.waiting or self.executing)

    @property
    def empty(self) -> bool:
        """Whether this node can be dropped."""
        return not (self.waiting or self.executing or self.idle or self.children)

    def lineage(self) -> Iterator[Invocation]:
        """Yield the node, its parent, …, the root."""
        node: Invocation | None = self
        while node is not None:
            yield node
            node = node.parent

    def first(self) -> Operation | Invocation | None:
        """Return the operation or the child that goes first; None if nothing waits.

        Jobs queued directly in a node precede its children, whatever the priorities. Only a
        higher static level below goes first.
        """
        own = self.queue.first()
        child = self.waiting_children.first()
        if own is None:
            return child
        return own if child is None or own.level >= child.level else child

    def refresh(self) -> None:
        """Move the node to its right place among its siblings, after it has changed."""
        first = self.first()
        if first is not None:
            self.level, self.priority = first.level, first.priority
        parent = self.parent
        if parent is None:
            return
        if first is None:
            parent.waiting_children.discard(self)
        else:
            parent.waiting_children.put(self, self.urgency())
        if self.free:
            utilization = len(self.executing) / self.free  # sorts like e ÷ (e + f)
            parent.free_children.put(self, (utilization, self.completed, self.created))
        else:
            parent.free_children.discard(self)

    def urgency(self) -> Urgency:
        """Return the key by which the node competes with its siblings for the next slot."""
        weighed, executing = self.priority + self.offset, len(self.executing)
        return urgency(self.level, weighed, executing, self.started, self.created)

    def free_slot(self) -> Slot | None:
        """Return the free slot to take: the node's own first, then the least used child's."""
        node = self
        while not node.own_free:
            child = node.own_free.least_used(node.free_children)
            if child is None:
                return None
            node = child
        return next(iter(node.own_free))

    def subtree(self) -> Iterator[Invocation]:
        """Yield the node and everything below it, parents before children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))
