"""The limits at which a builder is near overload, and has room again."""

from __future__ import annotations

import msgspec


class LoadLimits(msgspec.Struct, frozen=True):
    """Two thresholds with a gap between them, so that a builder does not flip between states.

    From ``overloaded_at`` up a builder takes light jobs only, until its load is back at
    ``room_at`` or below (the thesis, 7.1).
    """

    overloaded_at: float
    room_at: float

    def overloaded(self, load: float, *, was: bool) -> bool:
        """Return whether a builder with this load is overloaded, given whether it was before."""
        return load > self.room_at if was else load >= self.overloaded_at
