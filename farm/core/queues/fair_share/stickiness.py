"""Stickiness: how long a slot stays with its last invocation while scores tie."""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.queues.fair_share.accounting import (
    TIE,
    Execution,
    Invocation,
    Operation,
    SlotRecord,
    shared_prefix,
)


class Stickiness:
    """Decides whether a slot stays with its last invocation when scores tie.

    ``limits`` has one span in seconds per level, outermost first; other levels are not sticky.
    A limit counts from the instant at which the slot switched at that level. With
    ``first_level_only`` it counts from the switch at the outermost level, as upstream does.
    """

    def __init__(self, limits: Sequence[float], *, first_level_only: bool) -> None:
        self.limits = tuple(limits)
        self._first_level_only = first_level_only

    def lasts(self, record: SlotRecord, level: int, at: float) -> bool:
        """Return whether the slot's time at this level is not over (at the limit itself it is)."""
        since = record.since[0 if self._first_level_only else level]
        return since + self.limits[level] > at

    def switched(self, record: SlotRecord, retained: int, at: float) -> None:
        """Record that the slot starts a job with which it stays at ``retained`` levels only."""
        for level in range(retained, len(self.limits)):
            record.since[level] = at

    def descend(
        self, root: Invocation, record: SlotRecord | None, at: float
    ) -> tuple[Operation | None, int]:
        """Return a slot's next operation, and the number of levels at which the slot stays.

        It stays at a level only if it has stayed at all levels above.
        """
        home: tuple[str, ...] = ()
        if record is not None and record.last is not None:
            home = record.last.path
        sticky_levels = min(len(home), len(self.limits))
        node = root
        level = retained = 0
        while isinstance(child := node.first(), Invocation):
            if record is not None and retained == level < sticky_levels:
                last_child = node.children.get(home[level])
                if self._stays(record, last_child, child, level, at):
                    child = node.children[home[level]]
                if child is last_child:
                    retained = level + 1
            node = child
            level += 1
        return child, retained

    def _stays(
        self, record: SlotRecord, last: Invocation | None, best: Invocation, level: int, at: float
    ) -> bool:
        return (
            last is not None
            and last.waiting > 0
            # only level and score, not the times: stickiness breaks exact ties only
            and last.urgency()[:TIE] == best.urgency()[:TIE]
            and self.lasts(record, level, at)
        )

    def retained(
        self, root: Invocation, execution: Execution, record: SlotRecord, at: float
    ) -> int:
        """Count the levels at which the slot stays if it takes this execution now."""
        if len(execution.operations) > 1:
            operation, retained = self.descend(root, record, at)
            if operation is not None and operation.execution is execution:
                return retained
        home = () if record.last is None else record.last.path
        shared = shared_prefix(home, execution.operations[0].node.path)
        return min(len(shared), len(self.limits))
