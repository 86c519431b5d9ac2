"""When a builder is near overload, and when it has room again."""

from __future__ import annotations

import msgspec


class LoadLimits(msgspec.Struct, frozen=True):
    """Two thresholds with room between them, so that a builder does not change its mind at once.

    From ``overloaded_at`` on a builder takes light jobs only, until its load is back at
    ``room_at`` or below (the thesis, 7.1).
    """

    overloaded_at: float
    room_at: float

    def overloaded(self, load: float, *, was: bool) -> bool:
        """Whether a builder with this load is overloaded now, given whether it was before."""
        return load > self.room_at if was else load >= self.overloaded_at
