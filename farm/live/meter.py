"""What a live world tells whoever measures it."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Hears how long things take, real seconds (``farm.metrics.farm_metrics``)."""

    def cycle(self, seconds: float) -> None:
        """A batch of reports was taken in, decided on and committed."""

    def commit(self, seconds: float) -> None:
        """One transaction was carried out."""

    def lag(self, seconds: float) -> None:
        """The oldest report not booked yet is so old; 0: none is."""

    def aside(self, seconds: float) -> None:
        """Something else than reports was seen to for so long."""

    def lost_writes(self) -> None:
        """The server was found to have lost what it had acknowledged."""

    def step(self) -> bool:
        """Work for a millisecond or two on the metrics; return whether there is more to do."""
