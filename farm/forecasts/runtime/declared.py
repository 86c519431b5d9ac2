"""The declared time of the submitter."""

from __future__ import annotations

import math

from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import RuntimeEstimator, on_builder


class Declared(RuntimeEstimator):
    """The job's declared time ÷ the builder's speed; a default when nothing was declared."""

    name = "declared"

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the declared time on this builder, in seconds."""
        default, said = self.options.default_time, job.declared_time
        if said is None or not 0.0 <= said < math.inf:  # no call: this is asked for every job
            said = default
        return said if builder is None else on_builder(said, builder, default)
