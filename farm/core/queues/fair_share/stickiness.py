"""Stickiness: how long a slot stays with its last invocation while scores tie."""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.queues.fair_share.slots import SlotRecord


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
