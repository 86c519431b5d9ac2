"""``batsim``: Batsim's output files, in a new directory, for evalys and other readers.

``jobs.csv`` (one job per line; a builder is a resource), ``schedule.json`` (means and maxima) and
``machine_states.csv`` (how many builders compute, idle and switch on, at each change). Readers want
the same sum in each row: of the most builders that were there at once, the others sleep.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import msgspec

from farm.results.jobs_table import JobRow
from farm.results.log.fold import FarmFold
from farm.results.run_directory import Run

COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources",
    "requested_time", "success", "final_state", "starting_time", "execution_time", "finish_time",
    "waiting_time", "turnaround_time", "stretch", "allocated_resources", "metadata",
)  # fmt: skip
STATES = (
    "time", "nb_sleeping", "nb_switching_on", "nb_switching_off", "nb_idle", "nb_computing",
)  # fmt: skip
FINAL = {
    "succeeded": "COMPLETED_SUCCESSFULLY",
    "failed": "COMPLETED_FAILED",
    "cancelled": "COMPLETED_KILLED",
    "lost": "REJECTED",
}


def export(run: Run, out: Path) -> int:
    """Write the three files; return the number of jobs."""
    out.mkdir()
    rows = run.jobs
    with (out / "jobs.csv").open("w", encoding="utf-8", newline="") as sink:
        table = csv.writer(sink, lineterminator="\n")
        table.writerow(COLUMNS)
        resources: dict[str, int] = {}
        table.writerows(_row(run.summary.name, row, resources) for row in rows)
    _write_states(run, out / "machine_states.csv")
    schedule = msgspec.json.format(msgspec.json.encode(_schedule(rows, len(resources))), indent=2)
    (out / "schedule.json").write_bytes(schedule + b"\n")
    return len(rows)


def _row(workload: str, row: JobRow, resources: dict[str, int]) -> tuple[Any, ...]:
    resource = resources.setdefault(row.builder, len(resources)) if row.builder else ""
    return (
        row.job_id, workload, row.kind, row.arrived_at, 1,
        row.declared_time if row.declared_time is not None else -1,
        int(row.outcome == "succeeded"), FINAL[row.outcome],
        row.started_at, row.service_time, row.finished_at, row.waiting_time, row.response_time,
        row.stretch, resource, "",
    )  # fmt: skip


def _write_states(run: Run, path: Path) -> None:
    farm = FarmFold()
    changes: list[tuple[float, tuple[int, ...]]] = []
    for entry in run.entries():
        farm(entry.event, entry.commands)
        counts = farm.counts()
        state = (
            counts.builders_requested, counts.builders_draining, counts.builders_idle,
            counts.builders_busy,
        )  # fmt: skip
        if not changes or state != changes[-1][1]:
            changes.append((entry.event.at, state))
    most = max((sum(state) for _, state in changes), default=0)
    with path.open("w", encoding="utf-8", newline="") as sink:
        table = csv.writer(sink, lineterminator="\n")
        table.writerow(STATES)
        table.writerows((at, most - sum(state), *state) for at, state in changes)


def _schedule(rows: list[JobRow], machines: int) -> dict[str, Any]:
    ran = [row for row in rows if row.finished_at is not None and row.waiting_time is not None]
    finished = max((row.finished_at or 0.0 for row in ran), default=0.0)
    succeeded = sum(row.outcome == "succeeded" for row in rows)
    values: dict[str, Any] = {
        "makespan": finished - min((row.arrived_at for row in ran), default=0.0),
        "nb_jobs": len(rows),
        "nb_jobs_finished": len(ran),
        "nb_jobs_success": succeeded,
        "nb_jobs_killed": sum(row.outcome == "cancelled" for row in rows),
        "nb_jobs_rejected": sum(row.outcome == "lost" for row in rows),
        "success_rate": succeeded / len(rows) if rows else 0.0,
        "nb_computing_machines": machines,
        "time_computing": sum(row.service_time or 0.0 for row in ran),
    }
    for key, field in (
        ("waiting_time", "waiting_time"), ("turnaround_time", "response_time"),
        ("slowdown", "stretch"),
    ):  # fmt: skip
        found = [value for row in ran if (value := getattr(row, field)) is not None]
        values[f"mean_{key}"] = sum(found) / len(found) if found else 0.0
        values[f"max_{key}"] = max(found, default=0.0)
    return values
