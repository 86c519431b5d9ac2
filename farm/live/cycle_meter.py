"""How long the scheduler takes from reports that came in to their commit."""

from __future__ import annotations

import time

from farm.metrics.series import Series

LAG = "farm_scheduler_event_lag_seconds"


class CycleMeter:
    """Measures cycles; instants are real."""

    def __init__(self, series: Series) -> None:
        self._series = series
        #: when the reports came that are being decided on
        self._began: float | None = None

    def read(self, entries: int, now: float) -> None:
        """Note how many reports came."""
        if entries:
            self._began = now
        else:
            self._series.set(LAG, {(): 0.0})

    def committed(self, began: float, oldest: float | None) -> None:
        """Note a commit; ``oldest``: when the oldest of its reports was sent (Unix)."""
        ended = time.monotonic()
        self._series.observe("farm_scheduler_commit_seconds", ended - began)
        if self._began is not None:
            self._series.observe("farm_scheduler_cycle_seconds", ended - self._began)
            self._began = None
            lag = 0.0 if oldest is None else max(0.0, time.time() - oldest)
            self._series.set(LAG, {(): lag})
