"""The result of every trace reader, and the selection by a scenario's options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from farm.columns import Coded, Floats
from farm.core.errors import TraceError
from farm.records.attempt import Happened
from farm.scenario.workload import TraceOptions
from farm.units import many


class Records(NamedTuple):
    """The jobs of a trace, in the order of the file."""

    #: arrivals, seconds of the trace's own time
    arrived: Floats
    #: service times, seconds
    service: Floats
    #: the trace's own ids, unique; None: it has no ids
    ids: list[str] | None = None
    #: further fields of the jobs, by the name of a Job's field; UNSET: nothing is known of it
    details: Mapping[str, Coded] = {}
    #: processors that each job took; None: one
    width: NDArray[np.int64] | None = None
    #: why rows of the file were left out, and how many
    left_out: Mapping[str, int] = {}
    #: unused columns
    unused: tuple[str, ...] = ()
    #: whatever else a reader of the file must know
    notes: tuple[str, ...] = ()
    #: what the file says really happened to the jobs; None: nothing of when they started
    happened: Happened | None = None

    def taken(self, order: NDArray[np.intp]) -> Records:
        """Return the records at these positions, in this order."""
        return self._replace(
            arrived=self.arrived[order],
            service=self.service[order],
            ids=self.ids and [self.ids[place] for place in order.tolist()],
            details={field: found[order] for field, found in self.details.items()},
            width=None if self.width is None else self.width[order],
            happened=self.happened and self.happened.taken(order),
        )

    def name(self, number: int) -> str:
        """Return the trace's own id of the n-th job, from 1; else the number."""
        return self.ids[number - 1] if self.ids else f"{number:06d}"

    @property
    def remarks(self) -> list[str]:
        """Which parts of the file make no jobs, and why."""
        counts = self.left_out.items()
        reasons = [f"left out: {many(count, 'row')} {why}" for why, count in counts if count]
        unused = [f"columns not used: {', '.join(self.unused)}"] if self.unused else []
        return [*reasons, *unused, *self.notes]

    @property
    def parallel(self) -> int:
        """The number of jobs that took several processors."""
        return 0 if self.width is None else int((self.width > 1).sum())


def selected(records: Records, options: TraceOptions) -> Records:
    """Return the records that the options select, by ascending arrival (ties: as in the file).

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


def widened(records: Records, options: TraceOptions, source: str) -> Records:
    """Return the records, with jobs of several processors treated as configured.

    They are taken as one slot each, refused (TraceError), or split: into as many jobs as
    processors, released together as a matrix that is named as the job was.
    """
    if not records.parallel or (width := records.width) is None:
        return records
    if options.parallel == "refuse":
        raise TraceError(
            f"{source}: found {records.parallel} jobs of several processors; allowed with "
            "parallel: one (each takes one slot), split (a job for each processor)"
        )
    became = "a job for each processor" if options.parallel == "split" else "one slot each"
    note = f"jobs of several processors: {records.parallel:,}, taken as {became}"
    records = records._replace(notes=(*records.notes, note))
    if options.parallel != "split":
        return records
    width = np.maximum(1, width)
    parts = records.taken(np.repeat(np.arange(len(width)), width))
    names = map(records.name, range(1, len(width) + 1))
    pairs = zip(names, width.tolist(), strict=True)
    numbered = [(name, n, of) for name, of in pairs for n in range(1, of + 1)]
    known = parts.details.get("matrix")
    matrices = [UNSET] * len(numbered) if known is None else known.tolist()
    matrices = [
        name if of > 1 and own is UNSET else own
        for (name, _, of), own in zip(numbered, matrices, strict=True)
    ]
    ids = [f"{name}-{n}" if of > 1 else name for name, n, of in numbered]
    return parts._replace(
        ids=ids if len(set(ids)) == len(ids) else None,  # "a" in two parts beside an "a-1"
        details={**parts.details, "matrix": Coded.of(matrices)},
    )
