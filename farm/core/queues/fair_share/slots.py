"""What a fair-share tree remembers of each slot: to which node it belongs, and since when."""

from __future__ import annotations

import msgspec

from farm.core.queues.fair_share.tree import Invocation, InvocationTree
from farm.core.queues.fair_share.tree_snapshot import SlotMemory
from farm.core.state.working_state import Slot

NEVER = float("-inf")


class SlotRecord(msgspec.Struct, eq=False):
    """One slot, as seen by this tree."""

    #: its last invocation; None while it runs a job of this tree
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
            above.idle += 1

    def release(self, slot: Slot, record: SlotRecord) -> Invocation | None:
        """Detach a slot from its node, which is returned."""
        node = record.last
        if node is None:
            return None
        self.withdraw(slot, record)
        record.last = None
        for above in node.lineage():
            above.idle -= 1
        return node

    def offer(self, slot: Slot, record: SlotRecord) -> None:
        """Offer a slot for a job, in the node to which it belongs."""
        if record.free or record.last is None:
            return
        record.free = True
        record.last.own_free.append(slot)
        for above in record.last.lineage():
            above.free += 1

    def withdraw(self, slot: Slot, record: SlotRecord) -> None:
        """Withdraw a slot if it was offered."""
        if not record.free or record.last is None:
            return
        record.free = False
        record.last.own_free.remove(slot)
        for above in record.last.lineage():
            above.free -= 1

    def forget(self, slot: Slot) -> Invocation | None:
        """Drop a slot for good; return the node to which it belonged."""
        record = self._records.pop(slot, None)
        return None if record is None else self.release(slot, record)
