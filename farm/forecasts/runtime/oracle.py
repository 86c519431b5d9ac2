"""The job's true run time."""

from __future__ import annotations

from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import Basis, RuntimeEstimator, on_builder


class Oracle(RuntimeEstimator):
    """The job's own service time ÷ the builder's speed (without contention)."""

    name = "oracle"
    reads = ("service_time",)

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the service time on this builder, in seconds."""
        return on_builder(job.service_time, builder, self.options.default_time)

    def basis(self, job: Job, builder: Builder | None = None) -> Basis:
        """Return that it is the truth."""
        return Basis("the truth")
