"""Up to where the streams were read when the farm was committed last."""

from __future__ import annotations

from farm.live.redis.keys import Cursor

#: for so long what only moves the cursor (heartbeats that agree) is not committed, real seconds
CURSOR_INTERVAL = 2.0


class CommittedCursor:
    """Says whether a commit that would only move the cursor may wait; instants are real."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = dict(cursor)
        self._at = 0.0

    def note(self, cursor: Cursor, now: float) -> None:
        """Note a commit."""
        self.cursor, self._at = cursor, now

    def may_wait(self, cursor: Cursor, now: float) -> bool:
        """Return whether a cursor need not be committed: a successor may read heartbeats again."""
        if cursor == self.cursor:
            return True
        others = {**cursor, "reports": self.cursor["reports"]} == self.cursor
        return others and now < self._at + CURSOR_INTERVAL
