"""The interface of a runtime estimator."""

from __future__ import annotations

from typing import Protocol

from farm.core.model import Builder, Job, Outcome


class Estimator(Protocol):
    """The interface of a runtime estimator; ``farm.forecasts.runtime`` implements it."""

    #: False: ``learn`` does nothing and need not be called
    learns: bool

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the expected run time in seconds.

        Without a builder (the job waits) it is for a builder of speed 1; with one (the job is
        dispatched, or might be) it is for that builder. Never raises; always finite and >= 0.
        """

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Learn from an ended attempt: once for each, after ``elapsed`` seconds of it."""
