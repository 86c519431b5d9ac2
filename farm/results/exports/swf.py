"""``swf``: the Standard Workload Format 2.2 (18 fields per job, -1: unknown, whole seconds).

Submit times count from the first job, waiting times from submission to start. A user is the
outermost key of the job's invocation, an executable its kind, a queue its platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from farm.results.jobs_table import JobRow
from farm.results.run_directory import Run

STATUS = {"succeeded": 1, "failed": 0, "cancelled": 5, "lost": -1}


class _Numbers:
    """Numbers names in order of appearance, from 1."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names) + 1) if name else -1


def export(run: Run, out: Path) -> int:
    """Write the run's jobs by arrival; return their number."""
    rows = sorted(run.jobs, key=lambda row: (row.arrived_at, row.job_id))
    users, kinds, queues = _Numbers(), _Numbers(), _Numbers()
    first = rows[0].arrived_at if rows else 0.0
    lines = [
        _line(number, row, first, users(row.invocation.partition("/")[0]), kinds(row.kind),
              queues(row.platform))
        for number, row in enumerate(rows, start=1)
    ]  # fmt: skip
    with out.open("x", encoding="utf-8", newline="\n") as sink:
        sink.writelines(_header(run, len(rows), users, kinds, queues))
        sink.writelines(lines)
    return len(rows)


def _header(
    run: Run, jobs: int, users: _Numbers, kinds: _Numbers, queues: _Numbers
) -> Iterator[str]:
    yield "; Version: 2.2\n"
    yield f"; Computer: {run.summary.name} ({run.summary.world})\n"
    yield f"; MaxJobs: {jobs}\n; MaxRecords: {jobs}\n"
    yield "; UnixStartTime: 0\n; Preemption: No\n"
    yield f"; MaxNodes: {max(1, run.summary.builders.max_running)}\n"
    for what, numbers in (("Queue", queues), ("User", users), ("Executable", kinds)):
        for name, number in numbers.names.items():
            yield f"; {what}: {number} {' '.join(name.split())}\n"  # in one line


def _line(number: int, row: JobRow, first: float, user: int, kind: int, queue: int) -> str:
    ran = row.outcome in ("succeeded", "failed")
    fields = (
        number,
        round(row.arrived_at - first),
        _seconds(row.waiting_time),
        _seconds(row.service_time),
        1 if row.started_at is not None else -1,  # processors
        -1,  # processor time
        -1,  # memory
        1,  # requested processors
        _seconds(row.declared_time),
        -1,
        STATUS[row.outcome] if ran or row.outcome == "cancelled" else -1,
        user,
        -1,  # group
        kind,
        queue,
        -1,  # partition
        -1,  # preceding job
        -1,  # think time
    )
    return " ".join(map(str, fields)) + "\n"


def _seconds(value: float | None) -> int:
    return -1 if value is None else max(0, round(value))
