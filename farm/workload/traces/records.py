"""What every trace reader returns, and what a scenario's options select from it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.scenario.workload import TraceOptions

Times = NDArray[np.float64]


class Records(NamedTuple):
    """The jobs of a trace, in the order of the file."""

    #: arrivals, seconds of the trace's own time
    arrived: Times
    #: service times, seconds
    service: Times
    #: the trace's own ids, unique; None: it has none
    ids: list[str] | None = None
    #: further fields of each job (keyword arguments of a Job); None: nothing more is known
    details: list[dict[str, Any]] | None = None

    def taken(self, order: NDArray[np.intp]) -> Records:
        """Return the records at these positions, in this order."""
        places = order.tolist()
        return Records(
            self.arrived[order],
            self.service[order],
            None if self.ids is None else [self.ids[place] for place in places],
            None if self.details is None else [self.details[place] for place in places],
        )


def selected(records: Records, options: TraceOptions) -> Records:
    """Return the records that the options ask for, by ascending arrival (ties: as in the file).

    First the window, which is moved to begin at 0; then the first ``jobs``; then arrivals are
    multiplied by ``time_scale``.
    """
    if np.any(np.diff(records.arrived) < 0):
        records = records.taken(np.argsort(records.arrived, kind="stable"))
    start, end = options.window or (0.0, math.inf)
    if options.window is not None:
        first, last = np.searchsorted(records.arrived, [start, end], side="left")
        records = records.taken(np.arange(first, last))
    if options.jobs is not None and len(records.arrived) > options.jobs:
        records = records.taken(np.arange(options.jobs))
    if start or options.time_scale != 1.0:
        records = records._replace(arrived=(records.arrived - start) * options.time_scale)
    return records
