"""``swf``: the Standard Workload Format 2.2 (18 fields per job, -1: unknown, whole seconds).

Submit times count from the first job, waiting times from submission to start. A user is the
outermost key of the job's invocation, an executable its kind, a queue its platform.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from farm.columns import Floats, Numbers, numbered
from farm.results.run_directory import Run

STATUS = {"succeeded": 1, "failed": 0, "cancelled": 5, "lost": -1}


def export(run: Run, out: Path) -> int:
    """Write the run's jobs by arrival; return their number."""
    jobs = run.jobs.taken(np.lexsort((run.jobs["job_id"], run.jobs.arrived_at)))
    arrived_at, unknown = jobs.arrived_at, np.full(len(jobs), -1)
    users, user_names = _numbers([name.partition("/")[0] for name in jobs["invocation"].tolist()])
    kinds, kind_names = _numbers(jobs["kind"].tolist())
    queues, queue_names = _numbers(jobs["platform"].tolist())
    fields = (
        np.arange(1, len(jobs) + 1),
        _seconds(arrived_at - arrived_at[:1]),
        _seconds(jobs["waiting_time_s"]),
        _seconds(jobs["service_time_s"]),
        np.where(np.isnan(jobs["started_at_s"]), -1, 1),  # processors
        unknown,  # processor time
        unknown,  # memory
        np.ones_like(unknown),  # requested processors
        _seconds(jobs["declared_time_s"]),
        unknown,
        np.array([STATUS[outcome] for outcome in jobs["outcome"].tolist()]),
        users,
        unknown,  # group
        kinds,
        queues,
        unknown,  # partition
        unknown,  # preceding job
        unknown,  # think time
    )
    names = {"Queue": queue_names, "User": user_names, "Executable": kind_names}
    with out.open("x", encoding="utf-8", newline="\n") as sink:
        sink.writelines(_header(run, names))
        rows = np.column_stack(fields).tolist()
        sink.writelines(" ".join(map(str, row)) + "\n" for row in rows)
    return len(jobs)


def _header(run: Run, names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    jobs = len(run.jobs)
    yield "; Version: 2.2\n"
    yield f"; Computer: {run.summary.name} ({run.summary.world})\n"
    yield f"; MaxJobs: {jobs}\n; MaxRecords: {jobs}\n"
    yield "; UnixStartTime: 0\n; Preemption: No\n"
    yield f"; MaxNodes: {max(1, run.summary.builders.max_running)}\n"
    for what, numbered_names in names.items():
        for number, name in enumerate(numbered_names, start=1):
            yield f"; {what}: {number} {' '.join(name.split())}\n"  # in one line


def _numbers(names: Sequence[str]) -> tuple[Numbers, list[str]]:
    """Number names in order of appearance, from 1; -1: it has none."""
    numbers, found = numbered([name or None for name in names])
    return np.where(numbers < 0, -1, numbers + 1), found


def _seconds(times: Floats) -> Numbers:
    return np.where(np.isnan(times), -1, np.maximum(0, np.rint(times))).astype(np.int64)
