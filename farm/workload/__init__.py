"""Workloads: the sources of jobs. Pure except for reading trace files; every draw has a seed.

``build_jobs(scenario)`` gives a scenario's jobs by arrival, ``build_workload`` also what its traces
say of them, ``build_several`` those of several seeds; ``batches`` those of one instant together;
``read_trace`` reads recorded jobs.
"""

from __future__ import annotations

from farm.scenario.workload import TraceOptions
from farm.workload.build import (
    Several,
    Workload,
    batches,
    build_jobs,
    build_several,
    build_workload,
    is_answered,
    needed_of,
)
from farm.workload.recorded import read_trace
from farm.workload.streams import stream
from farm.workload.submissions import Batch, FeedbackLoad, Submissions

__all__ = [
    "Batch",
    "FeedbackLoad",
    "Several",
    "Submissions",
    "TraceOptions",
    "Workload",
    "batches",
    "build_jobs",
    "build_several",
    "build_workload",
    "is_answered",
    "needed_of",
    "read_trace",
    "stream",
]
