"""The declared time of the submitter."""

from __future__ import annotations

import math

from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import RuntimeEstimator, on_builder


class Declared(RuntimeEstimator):
    """The job's declared time ÷ the builder's speed; a default when nothing was declared."""

    name = "declared"
    reads = ("declared_time",)

    def estimate(self, job: Job, builder: Builder | None = None) -> float:
        """Return the declared time on this builder, in seconds."""
        default, declared = self.options.default_time, job.declared_time
        if declared is None or not 0.0 <= declared < math.inf:  # no call: asked for every job
            declared = default
        return declared if builder is None else on_builder(declared, builder, default)
