"""Which jobs and builders of a run count: the rule, in one place.

A job counts if it arrived in the run phase, whenever it starts and ends. So no wait is cut off at
the end of the phase, and jobs that met a farm that was still filling up are left out. Builders
count for as long as they are present in the phase. A run without phases counts as a whole.

The Taskcluster simulator counts otherwise (``touching``), and so does a scenario that asks for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np

from farm.columns import Flags, Floats
from farm.results.table.job_columns import Jobs
from farm.results.table.recorder import RunRecords


class Window(msgspec.Struct, frozen=True):
    """The part of a run that counts: start ≤ t < end, seconds of farm time."""

    start: float = float("-inf")
    end: float = float("inf")

    def holds(self, at: Floats) -> Flags:
        """Return which instants are in the window (NaN is not)."""
        return (self.start <= at) & (at < self.end)

    def overlap(self, start: Floats, end: Floats) -> Floats:
        """Return how much of each span is in the window, seconds."""
        inside: Floats = np.minimum(end, self.end) - np.maximum(start, self.start)
        return np.maximum(inside, 0.0, out=inside)


class Counting(NamedTuple):
    """What counts of a run."""

    #: jobs that ended, and those that did not
    jobs: Jobs
    lost: Jobs
    #: the records of the builders and attempts that count
    records: RunRecords
    #: the part of the run in which these builders count
    builders_in: Window


def arrived_in(records: RunRecords, window: Window) -> tuple[Jobs, Jobs]:
    """Return the jobs that arrived in a window: those that ended, and those that did not."""
    jobs, lost = (
        table.taken(window.holds(table.arrived_at)) for table in (records.jobs, records.lost)
    )
    return jobs, lost


def counting(records: RunRecords, window: Window, *, as_taskcluster: bool = False) -> Counting:
    """Return what counts of a run whose run phase is this window."""
    if not as_taskcluster:
        jobs, lost = arrived_in(records, window)
        return Counting(jobs, lost, records, window)
    records = touching(records, window)
    # the end of the phase belongs to it
    jobs, lost = arrived_in(records, Window(end=math.nextafter(window.end, math.inf)))
    return Counting(jobs, lost, records, Window())


def touching(records: RunRecords, window: Window) -> RunRecords:
    """Return the jobs and builders that the Taskcluster simulator counts in a run phase.

    Its recorder drops those that ended before the phase or came after it; the others count with
    their whole lives. So a builder whose jobs all ended before the phase, but which was still
    present when it began, counts as over-provisioned, from the instant it joined.
    """
    jobs = records.jobs
    builders = records.builders
    touches = ~(jobs.finished_at < window.start) & (jobs.arrived_at <= window.end)
    is_present = ~(builders.gone_at < window.start) & ~(builders.requested_at > window.end)
    # the last row is for attempts of no job
    rows = np.append(np.where(touches, np.cumsum(touches) - 1, -1), -1)
    return msgspec.structs.replace(
        records,
        jobs=jobs.taken(touches),
        builders=builders.taken(is_present),
        void=records.void.having(row=rows[records.void.row]),
        edges=None,
    )
