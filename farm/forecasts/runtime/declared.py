"""The declared time of the submitter."""

from __future__ import annotations

import math

from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import EstimatorBase, on_builder, said_time


class Declared(EstimatorBase):
    """The job's declared time ÷ the builder's speed; a default when nothing was declared."""

    name = "declared"

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the declared time on this builder, in seconds."""
        said = job.declared_time
        if builder is None and said is not None and 0.0 <= said < math.inf:
            return said  # fast path: the scheduler calls this for every job
        default = self.options.default_time
        return on_builder(said_time(job, default), builder, default)
