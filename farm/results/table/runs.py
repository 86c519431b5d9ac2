"""Several runs in the same tables, which are summed up together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from farm.columns import Floats, Numbers
from farm.results.table.recorder import RunRecords


class Runs(NamedTuple):
    """Runs whose jobs and builders stand in the same tables, one run's after the other's."""

    records: RunRecords
    seeds: Sequence[int]
    #: until when each lasted, farm time
    last_at: Floats
    #: the run of each builder, by its number; the last entry is for jobs without a builder
    of_builder: Numbers

    @classmethod
    def one(cls, records: RunRecords, seed: int) -> Runs:
        """Return a single run."""
        return cls(
            records, [seed], np.array([records.last_at]), np.zeros(len(records.pool_of), np.int64)
        )

    def total(self, run: Numbers, values: Floats) -> Floats:
        """Return the sum of the values of each run, each added up from first to last."""
        return np.asarray(np.bincount(run, values, len(self.seeds)), np.float64)

    def counted(self, run: Numbers) -> list[int]:
        """Return how many rows are each run's."""
        counts: list[int] = np.bincount(run, minlength=len(self.seeds)).tolist()
        return counts

    def parts(self, run: Numbers, values: Any) -> list[Any]:
        """Return the values of each run, where each run's rows follow those of the run before."""
        if len(self.seeds) == 1:
            return [values]
        ends = np.cumsum(self.counted(run)).tolist()
        pairs = zip([0, *ends], ends, strict=False)
        return [values[begin:end] for begin, end in pairs]
