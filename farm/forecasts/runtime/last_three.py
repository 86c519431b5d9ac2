"""The mean of the kind's last three successes, as in Jenkins."""

from __future__ import annotations

from farm.core.model import Builder, Job, Outcome
from farm.forecasts.runtime.interface import (
    Basis,
    EstimatorOptions,
    JsonValues,
    RuntimeEstimator,
    check_owner,
    converted,
    declared_basis,
    declared_time_of,
    is_time,
    latest,
    on_builder,
    speed_of,
)

_KEPT = 3


class LastThree(RuntimeEstimator):
    """Per kind: the mean of the last three successes, each converted to a builder of speed 1.

    Without a history: the declared time, else the default. Failed and cancelled attempts are
    ignored: their lengths say nothing about the work.
    """

    name = "last-3"
    reads = ("declared_time",)
    learns = True

    def __init__(self, options: EstimatorOptions | None = None) -> None:
        super().__init__(options)
        self._runs: dict[str, list[float]] = {}

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the mean of the kind's last runs on this builder, in seconds."""
        default = self.options.default_time
        runs = self._runs.get(job.kind)
        work = sum(runs) / len(runs) if runs else declared_time_of(job, default)
        return on_builder(work, builder, default)

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return how many of the kind's last runs were averaged."""
        runs = self._runs.get(job.kind)
        return (
            Basis("mean of the kind's last successes", len(runs)) if runs else declared_basis(job)
        )

    def learn(self, job: Job, builder: Builder, elapsed: float, outcome: Outcome) -> None:
        """Remember a success and forget the fourth last."""
        work = elapsed * speed_of(builder)
        if outcome == "succeeded" and is_time(work):
            runs = latest(self._runs, job.kind, [])
            runs.append(work)
            del runs[:-_KEPT]

    def dump(self) -> JsonValues:
        """Return the last runs of each kind, oldest first."""
        return {"estimator": self.name, "runs": {kind: list(r) for kind, r in self._runs.items()}}

    def load(self, state: JsonValues) -> None:
        """Restore the runs; StateError if the dump is invalid."""
        check_owner(state, self.name)
        runs = converted(state, "runs", dict[str, list[float]])
        self._runs = {kind: [r for r in kept if is_time(r)][-_KEPT:] for kind, kept in runs.items()}
