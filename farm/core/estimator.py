"""What the scheduler asks of a runtime estimator."""

from __future__ import annotations

from typing import Protocol

from farm.core.model import Builder, Job, Outcome


class Estimator(Protocol):
    """What the scheduler asks of a runtime estimator (farm.forecasts.runtime has them)."""

    #: False: learn() does nothing, so it need not be called
    learns: bool

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Take an ended attempt into account."""
