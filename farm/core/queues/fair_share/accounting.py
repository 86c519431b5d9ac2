"""Fair share's accounting: what an invocation is charged, when it goes, what a requeue costs it.

*What is charged.* Every job is charged to a node of the tree: its invocation, whose path names it,
and all nodes above. An invocation owes what it occupies now, and nothing else: the number of slots
that execute something at or below its node. Slot time that it had before is forgotten. Jobs with
the same action share an execution, which is charged to the node of every one of them: there its
slot counts once, for as long as any job of the node needs it.

*Who goes next.* A free slot descends from the root. At each node it takes the first job that is
queued in the node itself, unless a job of a higher static level waits below; or else it descends to
the child of the smallest ``urgency``: the highest static level, then the smallest
(executing slots + 1) · 2^(priority/100), then the one that started a job longest ago, then the
oldest node. A start counts for the whole path, so siblings with the same score take turns. A new
node has never started a job; its creation stands for that, so it comes after the siblings that have
the same score.

*Where a slot belongs.* When an execution completes, its slot idles in the lowest node above all
that it served, and it is found there by the next job of that node (``FairShareQueue.place``) and by
stickiness. A slot that is new, or whose attempt was lost or cancelled, belongs to the root: nothing
on it is worth staying for.

*When a node goes.* A node is dropped, with its turn, as soon as nothing waits, executes or idles at
or below it. If its invocation returns, its node is a new one.

*What a requeue costs.* The job keeps its key, and with it its place in its node. But its invocation
may lose a turn: the start of the lost attempt remains its latest one, and the slot goes to the
root. If that job was all that the node had, the node is dropped before the job waits again, and the
new one comes after all siblings with the same score.

Counts named without "own" cover a node's whole subtree. A slot corresponds to a worker in
Buildbarn: "executing" counts slots, not builders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from farm.core.errors import InvariantError
from farm.core.policies import Key
from farm.core.queues.fair_share.free_slots import FreeSlots
from farm.core.queues.fair_share.node_score import score
from farm.core.queues.fair_share.tree_snapshot import Instant, NodeMemory, SlotMemory
from farm.core.queues.heap import UpdatableHeap
from farm.core.state.working_state import JobState, Slot

Urgency = tuple[int, int, float, Instant, int]

#: this many leading items of an urgency express fairness: its level, and the two of its
#: ``node_score.score``; the rest makes siblings take turns
TIE = 3

#: since when a slot serves a node that it has never served
NEVER = float("-inf")


def urgency(level: int, priority: int, executing: int, last_start: Instant, serial: int) -> Urgency:
    """Return the key that sorts siblings with waiting jobs, the next one first.

    Static level, then score, then least recently started, then oldest node.
    """
    return (-level, *score(executing, priority), last_start, serial)


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


@dataclass(eq=False, slots=True)
class Invocation:
    """A node: its own queue, its children, and the running and idle slots below it."""

    path: tuple[str, ...]
    parent: Invocation | None
    #: latest start of an execution here; the creation of the node until there is one
    last_start: Instant
    #: free slots that belong to the node itself
    own_free: FreeSlots
    #: latest end of an execution here, whatever its outcome; its creation until there is one
    last_end: Instant = field(init=False)
    #: running number of its creation
    serial: int = field(init=False)
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
    #: slots that belong here and run no job of this tree; they may be busy elsewhere
    idle_slots: int = 0
    #: idle slots that wait for a job
    free_slots: int = 0
    #: children with free slots, least used first
    free_children: UpdatableHeap[Invocation] = field(default_factory=UpdatableHeap)

    def __post_init__(self) -> None:
        self.last_end = self.last_start
        _, self.serial = self.last_start

    @property
    def weighted_priority(self) -> int:
        """Its priority among its siblings, with its weight."""
        return self.priority + self.offset

    @property
    def active(self) -> bool:
        """Whether anything waits or executes here."""
        return bool(self.waiting or self.executing)

    @property
    def is_unused(self) -> bool:
        """Whether the node is dropped, with its turn."""
        return not (self.waiting or self.executing or self.idle_slots or self.children)

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
        if self.free_slots:
            utilization = len(self.executing) / self.free_slots  # sorts like e ÷ (e + f)
            parent.free_children.put(self, (utilization, self.last_end, self.serial))
        else:
            parent.free_children.discard(self)

    def urgency(self) -> Urgency:
        """Return the key by which the node competes with its siblings for the next slot."""
        priority = self.priority + self.offset
        return urgency(self.level, priority, len(self.executing), self.last_start, self.serial)

    def next_free_slot(self) -> Slot | None:
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


class Onlooker(Protocol):
    """What a tree notifies of its changes: an order that must not change (``future_order``)."""

    def before_change(self, node: Invocation) -> None:
        """The node and its ancestors are about to change."""

    def before_sharing(self, execution: Execution, key: Key | None) -> None:
        """The execution's members are about to change."""


class InvocationTree:
    """The nodes of one platform queue and their counts.

    Methods that change counts neither move nodes among their siblings nor drop them; ``settle``
    does both for the nodes that were changed.
    """

    def __init__(
        self,
        free_slots: Callable[[], FreeSlots],
        offsets: Mapping[tuple[str, ...], int] | None = None,
    ) -> None:
        self._free_slots = free_slots
        self.offsets = {} if offsets is None else offsets
        #: the last running number used
        self.instants = 0
        #: replays of an order that must not change
        self.onlookers: list[Onlooker] = []
        self.root = Invocation((), None, self.instant(0.0), free_slots())

    def instant(self, at: float) -> Instant:
        """Return ``at`` with the next running number."""
        self.instants += 1
        return at, self.instants

    def find(self, path: tuple[str, ...]) -> Invocation | None:
        """Return the node of this path, if it exists."""
        node: Invocation | None = self.root
        for key in path:
            if node is None:
                return None
            node = node.children.get(key)
        return node

    def make(self, path: tuple[str, ...], at: float) -> Invocation:
        """Return the node of this path, created if it does not exist."""
        node = self.root
        for key in path:
            child = node.children.get(key)
            if child is None:
                child = Invocation((*node.path, key), node, self.instant(at), self._free_slots())
                child.offset = self.offsets.get(child.path, 0)
                node.children[key] = child
            node = child
        return node

    def remembered(self) -> tuple[NodeMemory, ...]:
        """Return the nodes' times as plain values, parents before children."""
        return tuple(
            NodeMemory(node.path, node.serial, node.last_start, node.last_end)
            for node in self.root.subtree()
        )

    def weigh(self) -> None:
        """Move all nodes to their places after a change of the offsets."""
        for node in self.root.subtree():
            self._on_change(node)
            node.offset = self.offsets.get(node.path, 0)
        self.settle(list(self.root.subtree()))

    def enqueue(self, operation: Operation) -> None:
        """Add the operation to its node's queue."""
        self._on_change(operation.node)
        operation.node.queue.put(operation, operation.key)
        for node in operation.node.lineage():
            node.waiting += 1

    def dequeue(self, operation: Operation) -> None:
        """Remove the operation from its node's queue."""
        self.before_sharing(operation.execution)
        self._on_change(operation.node)
        operation.node.queue.discard(operation)
        for node in operation.node.lineage():
            node.waiting -= 1

    def start(self, operation: Operation, slot: Slot, instant: Instant) -> None:
        """Count the slot as executing for the operation (and for others of its execution)."""
        self._on_change(operation.node)
        for node in operation.node.lineage():
            node.executing[slot] = node.executing.get(slot, 0) + 1
            node.last_start = instant

    def stop(self, operation: Operation, slot: Slot, instant: Instant) -> None:
        """Undo ``start``; a slot counts in a node until its last operation there ends."""
        self._on_change(operation.node)
        for node in operation.node.lineage():
            operations = node.executing[slot] - 1
            if operations:
                node.executing[slot] = operations
            else:
                del node.executing[slot]
            node.last_end = instant

    def before_sharing(self, execution: Execution, key: Key | None = None) -> None:
        """Notify replays before an execution's members change; ``dequeue`` does so itself.

        ``key``: its leader's old key, if that has just been changed.
        """
        for onlooker in self.onlookers:
            onlooker.before_sharing(execution, key)

    def _on_change(self, node: Invocation) -> None:
        for onlooker in self.onlookers:
            onlooker.before_change(node)

    def settle(self, nodes: Iterable[Invocation]) -> None:
        """Move the nodes and their ancestors to their places; drop those that are not used.

        To be called once all counts of an event are changed: a node that loses its last job in one
        step and gets a slot in the next must not be dropped between the two.
        """
        for start in nodes:
            for node in start.lineage():
                node.refresh()
                parent = node.parent
                if parent is None or not node.is_unused:
                    continue
                if parent.children.get(node.path[-1]) is node:  # not dropped already
                    del parent.children[node.path[-1]]


def common_ancestor(execution: Execution) -> tuple[str, ...]:
    """Return the path of the lowest node above all that the execution served."""
    shared, *others = [operation.node.path for operation in execution.operations]
    for path in others:
        shared = shared_prefix(shared, path)
    return shared


def shared_prefix(path: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the common prefix of two paths."""
    depth = 0
    while path[depth : depth + 1] == other[depth : depth + 1] != ():
        depth += 1
    return path[:depth]


class SlotRecord(msgspec.Struct, eq=False):
    """One slot, as seen by this tree."""

    #: the node to which it belongs; None while it runs a job of this tree
    last: Invocation | None
    #: per level of stickiness: since when it has served its node of that level
    since: list[float]
    #: whether it waits for a job
    free: bool = False

    def remembered(self, slot: Slot) -> SlotMemory:
        """Return the record as plain values."""
        last = None if self.last is None else self.last.path
        since = tuple(None if since == NEVER else since for since in self.since)
        return SlotMemory(slot.builder.builder.id, slot.number, last, since, self.free)


class SlotBook:
    """The slots that may serve one tree, each associated with a node while it idles."""

    def __init__(self, tree: InvocationTree, levels: int) -> None:
        self._tree = tree
        self._levels = levels
        self._records: dict[Slot, SlotRecord] = {}

    def remembered(self) -> tuple[SlotMemory, ...]:
        """Return the records as plain values: the free slots first, as their nodes order them."""
        free = [slot for node in self._tree.root.subtree() for slot in node.own_free]
        others = [slot for slot, record in self._records.items() if not record.free]
        return tuple(self._records[slot].remembered(slot) for slot in (*free, *others))

    def get(self, slot: Slot) -> SlotRecord | None:
        """Return the slot's record, if there is one."""
        return self._records.get(slot)

    def known(self, slot: Slot) -> SlotRecord:
        """Return the slot's record, a new one if need be: a new slot belongs to the root."""
        record = self._records.get(slot)
        if record is None:
            record = self._records[slot] = SlotRecord(None, [NEVER] * self._levels)
            self.associate(record, self._tree.root)
        return record

    def restore(self, slot: Slot, memory: SlotMemory) -> None:
        """Restore a slot; after running a job it belongs to the root until the job resumes."""
        since = [NEVER if since is None else since for since in memory.since[: self._levels]]
        since += [NEVER] * (self._levels - len(since))
        record = self._records[slot] = SlotRecord(None, since)
        home = self._tree.find(memory.last or ())
        self.associate(record, self._tree.root if home is None else home)
        if memory.free:
            self.offer(slot, record)

    def associate(self, record: SlotRecord, node: Invocation) -> None:
        """Make an idle slot belong to this node."""
        record.last = node
        for above in node.lineage():
            above.idle_slots += 1

    def release(self, slot: Slot, record: SlotRecord) -> Invocation | None:
        """Detach a slot from its node, which is returned."""
        node = record.last
        if node is None:
            return None
        self.withdraw(slot, record)
        record.last = None
        for above in node.lineage():
            above.idle_slots -= 1
        return node

    def offer(self, slot: Slot, record: SlotRecord) -> None:
        """Offer a slot for a job, in the node to which it belongs."""
        if record.free or record.last is None:
            return
        record.free = True
        record.last.own_free.append(slot)
        for above in record.last.lineage():
            above.free_slots += 1

    def withdraw(self, slot: Slot, record: SlotRecord) -> None:
        """Withdraw a slot if it was offered."""
        if not record.free or record.last is None:
            return
        record.free = False
        record.last.own_free.remove(slot)
        for above in record.last.lineage():
            above.free_slots -= 1

    def forget(self, slot: Slot) -> Invocation | None:
        """Drop a slot for good; return the node to which it belonged."""
        record = self._records.pop(slot, None)
        return None if record is None else self.release(slot, record)


class Executions:
    """The waiting and running executions, by job and by slot.

    Jobs with the same action share an execution; those of one node share an operation of it.
    """

    def __init__(self, tree: InvocationTree, slots: SlotBook) -> None:
        self._tree = tree
        self._slots = slots
        #: the operation of each waiting or running job, by serial
        self.operations: dict[int, Operation] = {}
        #: how many executions wait for a slot
        self.waiting = 0
        #: what each slot runs
        self.running: dict[Slot, Execution] = {}

    def __contains__(self, state: JobState) -> bool:
        return state.serial in self.operations

    def of(self, state: JobState) -> Execution | None:
        """Return the execution that the job shares with others, if one is here."""
        leader = state.leader or state
        for other in (leader, *leader.followers):
            operation = self.operations.get(other.serial)
            if operation is not None:
                return operation.execution
        return None

    def add(self, state: JobState, at: float) -> None:
        """Queue one job, or count it as running if its execution runs."""
        operation = self.attach(state, at)
        execution = operation.execution
        if len(operation.states) > 1:
            return
        if execution.slot is not None:
            self._tree.start(operation, execution.slot, self._tree.instant(at))
        else:
            self._tree.enqueue(operation)
            self.waiting += len(execution.operations) == 1
        self._tree.settle((operation.node,))

    def attach(self, state: JobState, at: float) -> Operation:
        """Assign the job its operation: a new one, or its execution's in its node."""
        if state in self:
            raise InvariantError(f"job {state.job.id} is in this queue already")
        node = self._tree.make(state.path, at)
        execution = self.of(state)
        if execution is None:
            execution = Execution()
        else:
            self._tree.before_sharing(execution)
        for operation in execution.operations:
            if operation.node is node:
                operation.states.append(state)
                break
        else:
            level, priority = state.job.level, state.job.priority
            operation = Operation(node, execution, state.key, level, priority, [state])
            execution.operations.append(operation)
        self.operations[state.serial] = operation
        return operation

    def arrival(self, state: JobState, at: float) -> Execution:
        """Make the execution of a job and its followers without queueing it."""
        wanted = [m for m in (state, *state.followers) if not m.abandoned]
        first, *others = wanted or [state]
        execution = self.attach(first, at).execution
        for member in others:
            self.attach(member, at)
        return execution

    def remove(self, state: JobState, at: float) -> None:
        """Remove a job that waits, or that shares a running execution with others.

        Jobs that share its execution stay. Nothing started or ended, so the nodes' times stay the
        same, unless the job leaves a running execution: then that ends now for its node.
        """
        operation = self.operations.pop(state.serial, None)
        if operation is None and state.abandoned:
            return  # it left before, and so have the others that shared its execution
        if operation is None:
            raise InvariantError(f"job {state.job.id} is not in this queue")
        self._tree.before_sharing(operation.execution)
        operation.states.remove(state)
        if operation.states:
            return
        execution = operation.execution
        if execution.slot is None:
            self._tree.dequeue(operation)
            self.waiting -= len(execution.operations) == 1
        elif len(execution.operations) > 1:
            self._tree.stop(operation, execution.slot, self._tree.instant(at))
        else:
            return  # no job needs it any more, but it occupies its slot until it ends
        execution.operations.remove(operation)
        self._tree.settle((operation.node,))

    def rekeyed(self, state: JobState, before: Key) -> None:
        """Move a waiting job to its new place: its key, level or priority has changed."""
        operation = self.operations.get(state.serial)
        if operation is None or operation.execution.slot is not None:
            raise InvariantError(f"job {state.job.id} does not wait in this queue")
        self._tree.before_sharing(operation.execution, before if state.leader is None else None)
        self._tree.dequeue(operation)
        moved = operation.rekeyed(state)
        self.operations.update((member.serial, moved) for member in moved.states)
        self._tree.enqueue(moved)
        self._tree.settle((moved.node,))

    def begin(self, execution: Execution, slot: Slot, at: float) -> Invocation | None:
        """Run an execution on a slot; return the node to which the slot belonged until now.

        The nodes are not settled yet: the caller may have changed others, too.
        """
        former_home = self._slots.release(slot, self._slots.known(slot))
        execution.slot = slot
        self.running[slot] = execution
        instant = self._tree.instant(at)
        for operation in execution.operations:
            self._tree.start(operation, slot, instant)
        return former_home

    def end(self, slot: Slot, at: float, *, completed: bool) -> None:
        """End the execution of a slot, and assign the slot to the node where it idles.

        ``completed``: False for a lost or cancelled attempt. If its jobs wait again, they are added
        anew, after nodes that had nothing else have been dropped.
        """
        execution = self.running.pop(slot)
        touched = [operation.node for operation in execution.operations]
        record = self._slots.get(slot)
        if record is not None:
            path = common_ancestor(execution) if completed else ()
            home = self._tree.make(path, at)
            self._slots.associate(record, home)
            touched.append(home)
        instant = self._tree.instant(at)
        for operation in execution.operations:
            self._tree.stop(operation, slot, instant)
            for member in operation.states:
                del self.operations[member.serial]
        execution.operations.clear()  # break the reference cycle: no work for the garbage collector
        self._tree.settle(touched)
