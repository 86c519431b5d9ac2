"""The result of every trace reader, and the selection by a scenario's options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.core.errors import TraceError
from farm.records.attempt import Attempt, Result
from farm.scenario.workload import TraceOptions

Times = NDArray[np.float64]


class Records(NamedTuple):
    """The jobs of a trace, in the order of the file."""

    #: arrivals, seconds of the trace's own time
    arrived: Times
    #: service times, seconds
    service: Times
    #: the trace's own ids, unique; None: it has no ids
    ids: list[str] | None = None
    #: further fields of each job (keyword arguments of a Job); None: nothing more is known
    details: list[dict[str, Any]] | None = None
    #: processors that each job took; None: one
    width: NDArray[np.int64] | None = None
    #: why rows of the file were left out, and how many
    left_out: Mapping[str, int] = {}
    #: unused columns
    unused: tuple[str, ...] = ()
    #: whatever else a reader of the file must know
    notes: tuple[str, ...] = ()
    #: what the file says really happened to the job at a place, by the file's own clock
    #: (``Attempt.waited``: its wait there); None: nothing of when jobs started
    attempt_at: Callable[[int], Attempt] | None = None

    def taken(self, order: NDArray[np.intp]) -> Records:
        """Return the records at these positions, in this order."""
        places: list[int] = order.tolist()
        made = self.attempt_at
        return self._replace(
            arrived=self.arrived[order],
            service=self.service[order],
            ids=None if self.ids is None else [self.ids[place] for place in places],
            details=None if self.details is None else [self.details[place] for place in places],
            width=None if self.width is None else self.width[order],
            attempt_at=made and (lambda place: made(places[place])),
        )

    def name(self, number: int) -> str:
        """Return the trace's own id of the n-th job, from 1; else the number."""
        return self.ids[number - 1] if self.ids else f"{number:06d}"

    @property
    def remarks(self) -> list[str]:
        """Which parts of the file make no jobs, and why."""
        reasons = [f"left out: {count:,} {'row' if count == 1 else 'rows'} {why}"
                for why, count in self.left_out.items()]  # fmt: skip
        unused = [f"columns not used: {', '.join(self.unused)}"] if self.unused else []
        return [*reasons, *unused, *self.notes]

    @property
    def parallel(self) -> int:
        """The number of jobs that took several processors."""
        return 0 if self.width is None else int((self.width > 1).sum())


def attempts_of(
    ids: Sequence[str] | None,
    submitted: Times,
    started: Times,
    finished: Times,
    results: Sequence[Result] | None = None,
    runners: Sequence[str] | None = None,
) -> Callable[[int], Attempt] | None:
    """Return what makes the attempt at a place; None: no start is known (all are nan)."""
    if np.isnan(started).all():
        return None

    def attempt(place: int) -> Attempt:
        start, end = float(started[place]), float(finished[place])
        return Attempt(
            id=ids[place] if ids else "",
            submitted_at=float(submitted[place]),
            eligible_at=float(submitted[place]),
            started_at=None if math.isnan(start) else start,
            finished_at=None if math.isnan(end) else end,
            result=results[place] if results else "open",
            runner=runners[place] if runners else "",
        )

    return attempt


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
    numbered = [(name, n, of) for name, of in zip(names, width.tolist(), strict=True)
                for n in range(1, of + 1)]  # fmt: skip
    details = parts.details or [{} for _ in numbered]
    ids = [f"{name}-{n}" if of > 1 else name for name, n, of in numbered]
    return parts._replace(
        ids=ids if len(set(ids)) == len(ids) else None,  # "a" in two parts beside an "a-1"
        details=[
            {"matrix": name, **known} if of > 1 else known
            for (name, _, of), known in zip(numbered, details, strict=True)
        ],
    )
