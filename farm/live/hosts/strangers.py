"""Senders with unknown lives: they are reset, but not all at the same time.

A host that was given up for lost, or was up before this scheduler, comes back that way. A
sender that merely claims to be a host costs no more than a few messages that expire.
"""

from __future__ import annotations

#: unknown senders that are told to restart in ``window`` real seconds
MOST = 100


class Strangers:
    """Decides which of them is reset now; none twice within the window."""

    def __init__(self, window: float) -> None:
        self._window = window
        #: when each was told, the longest ago first
        self._told_at: dict[str, float] = {}

    def is_told(self, sender: str, now: float) -> bool:
        """Whether this one is to be told to begin anew; it counts as told then."""
        while self._told_at:
            first = next(iter(self._told_at))
            if self._told_at[first] > now - self._window:
                break
            del self._told_at[first]
        if sender in self._told_at or len(self._told_at) >= MOST:
            return False
        self._told_at[sender] = now
        return True
