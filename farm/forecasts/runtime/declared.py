"""The declared time of the submitter."""

from __future__ import annotations

from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import EstimatorBase, on_builder, said_time


class Declared(EstimatorBase):
    """The job's declared time ÷ the builder's speed; a default when nothing was declared."""

    name = "declared"

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the declared time on this builder, in seconds."""
        default = self.options.default_time
        said = said_time(job, default)
        return said if builder is None else on_builder(said, builder, default)
