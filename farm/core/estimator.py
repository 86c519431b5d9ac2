"""The interface of a runtime estimator."""

from __future__ import annotations

from typing import Protocol

from farm.core.model import Builder, Job, Outcome


class Estimator(Protocol):
    """The interface of a runtime estimator; ``farm.forecasts.runtime`` implements it."""

    #: False: ``learn`` does nothing and need not be called
    learns: bool

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds."""

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Update the estimates with an ended attempt."""
