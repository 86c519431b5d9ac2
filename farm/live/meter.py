"""Measurements of a live world."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Receives durations in real seconds (implemented by ``farm.metrics.farm_metrics``)."""

    def cycle(self, seconds: float) -> None:
        """Record a batch of reports that was read, decided on and committed."""

    def commit(self, seconds: float) -> None:
        """Record one transaction."""

    def lag(self, seconds: float) -> None:
        """Record the age of the oldest pending report; 0 if there is none."""

    def aside(self, seconds: float) -> None:
        """Record the time spent on background work."""

    def lost_writes(self) -> None:
        """Record that the server has lost acknowledged writes."""

    def step(self) -> bool:
        """Do one step of a millisecond or two on the metrics; return whether more remains."""
