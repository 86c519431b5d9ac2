"""The waiting jobs of one platform, shared fairly among invocations of any depth.

``accounting`` has the rules: what an invocation owes, who goes next, and what a requeue costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from farm.core.errors import InvariantError
from farm.core.policies import Key
from farm.core.queues.fair_share.accounting import Executions, InvocationTree, SlotBook
from farm.core.queues.fair_share.free_slots import FreeSlots, SwappingFreeSlots
from farm.core.queues.fair_share.future_order import Replay, kept_order
from farm.core.queues.fair_share.listing import TreeListing
from farm.core.queues.fair_share.stickiness import Stickiness
from farm.core.queues.fair_share.tree_snapshot import TreeMemory
from farm.core.queues.fair_share.turn_explanation import Turn, best_turns
from farm.core.queues.plain import Keyed, PlatformQueue
from farm.core.state.working_state import JobState, Slot


class FairShareQueue(PlatformQueue):
    """A queue in which invocations, not jobs, take turns.

    ``stickiness``: seconds per level, outermost first, during which a slot that could serve
    several equally deserving nodes stays with its own. ``compatibility="buildbarn"`` restores
    three of upstream's properties: every level's limit counts from the switch at the outermost
    level, the free slots of one node are used in swap-removal order, and of its children without
    own free slots the one that ended first gives one, however much runs below it. ``offsets``
    are added to the priorities of nodes among their siblings; ``weigh`` reads them again.

    Jobs with the same action share an execution: a leader, which is added, and its followers, which
    come with it or join later. Each waits in its own node with its own key; those of one node
    share one entry, which has the key of the first. When any of them is chosen, all leave.
    """

    def __init__(
        self,
        stickiness: Sequence[float] = (),
        *,
        compatibility: Literal["buildbarn"] | None = None,
        offsets: Mapping[tuple[str, ...], int] | None = None,
    ) -> None:
        upstream = compatibility == "buildbarn"
        self._tree = InvocationTree(SwappingFreeSlots if upstream else FreeSlots, offsets)
        self.weigh, self.offsets = self._tree.weigh, self._tree.offsets
        self._stickiness = Stickiness(stickiness, first_level_only=upstream)
        #: whether slots may stay where they were
        self.sticky = bool(self._stickiness.limits)
        self._slots = SlotBook(self._tree, len(self._stickiness.limits))
        self._executions = Executions(self._tree, self._slots)
        #: dispatches of waiting jobs by the number of levels at which the slot did not switch
        self.retained: Counter[int] = Counter()
        #: children, queues and running jobs of any node, read-only
        self.listing = TreeListing(self._tree, self._executions.running)

    # --- waiting jobs -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Count the executions that wait for a slot (jobs that share one are counted once)."""
        return self._executions.waiting

    def add(self, state: JobState, at: float) -> None:
        """Queue the job (at its old place, if requeued), together with the jobs that it leads.

        A job that is queued already, because its former leader was, keeps its place.
        """
        for member in (state, *state.followers):
            if member not in self._executions and not member.abandoned:
                self._executions.add(member, at)

    def joined(self, follower: JobState, at: float) -> None:
        """Add a follower to its leader's execution, waiting or running.

        A leader that is not queued yet brings its followers along later.
        """
        if self._executions.of(follower) is not None:
            self._executions.add(follower, at)

    def remove(self, state: JobState, at: float) -> None:
        """Remove a job that waits, or that shares a running execution with others."""
        self._executions.remove(state, at)

    def left(self, follower: JobState, at: float) -> None:
        """Detach one of several jobs (maybe the leader) from the execution that they share."""
        if follower in self._executions:
            self._executions.remove(follower, at)

    def rekeyed(self, state: JobState, before: Key, at: float) -> None:
        """Move a waiting job to its new place: its key, level or priority has changed."""
        self._executions.rekeyed(state, before)

    # --- the next job -------------------------------------------------------------------------

    def choose(self, slot: Slot, at: float) -> JobState | None:
        """Return the job that this free slot would get next; nothing changes."""
        operation, _ = self._stickiness.descend(self._tree.root, self._slots.get(slot), at)
        return None if operation is None else operation.execution.leader

    def place(self, state: JobState, at: float) -> Slot | None:
        """Return the free slot that an arriving job prefers; None if no slot is free.

        Nearest first: its own node, then its parent's subtree, and so on up to the root, level by
        level for all nodes of a shared job. Within the node that is found: one of its own slots,
        the longest free first; else one of the child with the lowest
        executing ÷ (executing + free), the least recently completed on a tie.
        """
        if not self._tree.root.free_slots:
            return None
        paths = [member.path for member in (state, *state.followers)]
        for lift in range(max(map(len, paths)) + 1):
            for path in paths:
                node = self._tree.find(path[: max(len(path) - lift, 0)])
                if node is not None and node.free_slots:
                    return node.next_free_slot()
        return None

    # --- running jobs -------------------------------------------------------------------------

    def dispatched(self, state: JobState, slot: Slot, at: float) -> None:
        """Assign a job (waiting or arriving) to the slot.

        For a job that waited, the slot keeps its stickiness at the levels that do not change; a
        job placed on arrival resets it at every level.
        """
        if slot in self._executions.running:
            raise InvariantError(f"slot {slot.builder.builder.id}/{slot.number} is taken")
        record = self._slots.known(slot)
        execution = self._executions.of(state)
        retained = 0
        if execution is None:
            execution = self._executions.arrival(state, at)
        else:
            if execution.slot is not None:
                raise InvariantError(f"job {state.job.id} is running already")
            retained = self._stickiness.retained(self._tree.root, execution, record, at)
            self.retained[retained] += 1
            self._executions.waiting -= 1
            for operation in execution.operations:
                self._tree.dequeue(operation)
        touched = [operation.node for operation in execution.operations]
        self._stickiness.switched(record, retained, at)
        former_home = self._executions.begin(execution, slot, at)
        if former_home is not None:
            touched.append(former_home)
        self._tree.settle(touched)

    def ended(self, state: JobState, slot: Slot, at: float, *, completed: bool) -> None:
        """End the slot's attempt; ``completed`` is False if it was lost or cancelled."""
        if slot not in self._executions.running:
            raise InvariantError(f"job {state.job.id} ends on a slot that runs nothing")
        self._executions.end(slot, at, completed=completed)

    def slot_free(self, slot: Slot, at: float) -> None:
        """Add a slot that waits for a job; a new slot belongs to the root."""
        record = self._slots.known(slot)
        if record.last is None:
            raise InvariantError(f"slot {slot.builder.builder.id}/{slot.number} runs a job")
        self._slots.offer(slot, record)
        self._tree.settle((record.last,))

    def slot_unavailable(self, slot: Slot, at: float, *, gone: bool) -> None:
        """Withdraw a slot that waited for a job; ``gone``: for good."""
        record = self._slots.get(slot)
        if record is None or not (gone or record.free):
            return
        self._slots.withdraw(slot, record)
        home = self._slots.forget(slot) if gone else record.last
        if home is not None:
            self._tree.settle((home,))

    # --- read-only views ----------------------------------------------------------------------

    def executing_in(self, path: tuple[str, ...]) -> int:
        """Count the slots that execute something of this node and below."""
        node = self._tree.find(path)
        return 0 if node is None else len(node.executing)

    def turns(self, state: JobState, *, taken: bool = False) -> tuple[Turn, ...]:
        """Explain, level by level, whose turn it is where a job waits; ``taken``: the job's own."""
        execution = self._executions.of(state)
        return () if execution is None else best_turns(execution.operations, taken=taken)

    def in_order(self) -> Iterator[JobState]:
        """Yield the jobs as they would be dispatched one by one to new slots, if none ended.

        For jobs that share an execution the leader is yielded. The queue must not change during
        the iteration.
        """
        for _, state in Replay(self._tree.root).run():
            yield state

    def order_kept(self) -> Iterator[list[Keyed]]:
        """Yield the jobs as ``in_order`` would now, even if the queue changes afterwards."""
        return kept_order(self._tree.root, self._tree.onlookers)

    # --- surviving a restart ------------------------------------------------------------------

    def memory(self) -> TreeMemory:
        """Return, as plain values, what cannot be derived from the jobs and slots."""
        return TreeMemory(self._tree.instants, self._tree.remembered(), self._slots.remembered())

    def restore(
        self,
        memory: TreeMemory,
        slots: Iterable[Slot],
        waiting: Iterable[JobState],
        running: Iterable[JobState],
    ) -> None:
        """Rebuild an empty queue as it was when ``memory`` was taken.

        ``slots``: those still present; one that is not in the memory belongs to the root.
        ``waiting``: leaders and followers. ``running``: leaders with their ``slot``, and their
        followers. Counters start from zero.
        """
        known = {(slot.builder.builder.id, slot.number): slot for slot in slots}
        nodes = [(self._tree.make(node.path, 0.0), node) for node in memory.nodes]
        for remembered_slot in memory.slots:
            slot = known.get((remembered_slot.builder, remembered_slot.number))
            if slot is not None:
                self._slots.restore(slot, remembered_slot)
        for state in running:
            self._resume(state)
        for state in waiting:
            self.add(state, 0.0)
        for node, remembered_node in nodes:
            node.serial = remembered_node.created
            node.last_start = remembered_node.started
            node.last_end = remembered_node.completed
        self._tree.instants = max(self._tree.instants, memory.instants)
        self._tree.settle(node for node, _ in nodes)

    def _resume(self, state: JobState) -> None:
        """Count a job as running on its slot, whose record stays the same."""
        if state.slot is None:
            raise InvariantError(f"job {state.job.id} is running, but on no slot")
        execution = self._executions.arrival(state, 0.0)
        self._executions.begin(execution, state.slot, 0.0)
        self._tree.settle([operation.node for operation in execution.operations])
