"""``batsim``: the files of a run in Batsim, in a new directory.

``workload.json`` is its input: the jobs that ran, with a profile for each service time of a kind.
The rest is its output, for evalys and other readers:

``jobs.csv`` (one job per line; a builder is a resource), ``schedule.json`` (means and maxima) and
``machine_states.csv`` (how many builders compute, idle and switch on, at each change). Readers want
the same sum in each row: of the most builders that were there at once, the others sleep.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from farm.core.commands import (
    Command,
    DrainBuilder,
    Ignored,
    RequestBuilder,
    RetireBuilder,
    StartJob,
)
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    DrainRequested,
    Event,
    JobFinished,
    UndrainRequested,
)
from farm.results.jobs_table import JobRow
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
    """Write the four files; return the number of jobs."""
    out.mkdir()
    rows = run.jobs
    with (out / "jobs.csv").open("w", encoding="utf-8", newline="") as sink:
        table = csv.writer(sink, lineterminator="\n")
        table.writerow(COLUMNS)
        resources: dict[str, int] = {}
        table.writerows(_row(run.summary.name, row, resources) for row in rows)
    _write_states(run, out / "machine_states.csv")
    builders = len(resources)
    for name, content in (
        ("schedule", _schedule(rows, builders)), ("workload", _workload(rows, builders)),
    ):  # fmt: skip
        text = msgspec.json.format(msgspec.json.encode(content), indent=2)
        (out / f"{name}.json").write_bytes(text + b"\n")
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


class _Machine(msgspec.Struct):
    """A builder: requested or there, and what its slots do."""

    there: bool = False
    running: int = 0
    draining: bool = False
    leaving: bool = False

    @property
    def state(self) -> str:
        """In which column it counts."""
        if not self.there:
            return "nb_switching_on"
        if self.draining or self.leaving:
            return "nb_switching_off"
        return "nb_computing" if self.running else "nb_idle"


class MachineStates:
    """Observer that counts builders by state."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._machines: dict[str, _Machine] = {}
        #: builders by the jobs that hold a slot there
        self._holds: dict[str, str] = {}

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Handle one event and its commands; a stale event changes nothing."""
        if type(commands) is not Ignored:
            for value in (event, *commands):
                self._take(value)

    def _take(self, value: Event | Command) -> None:
        match value:
            case RequestBuilder(builder=builder):
                self._change(builder.id)
            case BuilderJoined(builder=builder):
                self._change(builder.id, there=True)
            case BuilderRetired(builder=name) | BuilderLost(builder=name):
                if (gone := self._machines.pop(name, None)) is not None:
                    self.counts[gone.state] -= 1
            case StartJob(job=job, builder=name):
                self._holds[job.id] = name
                self._change(name, running=1)
            case JobFinished(job=job_id) | AttemptLost(job=job_id):
                if (holder := self._holds.pop(job_id, "")) in self._machines:
                    self._change(holder, running=-1)
            case DrainBuilder(builder=name) | RetireBuilder(builder=name):
                self._change(name, leaving=True)
            case DrainRequested(pattern=pattern, retire=retire):
                for name in self._named(pattern):
                    self._change(name, draining=True, leaving=retire)
            case UndrainRequested(pattern=pattern):
                for name in self._named(pattern):
                    self._change(name, draining=False)

    def _named(self, pattern: str) -> list[str]:
        there = (name for name, machine in self._machines.items() if machine.there)
        return [name for name in there if fnmatchcase(name, pattern)]

    def _change(
        self,
        name: str,
        *,
        there: bool = False,
        running: int = 0,
        draining: bool | None = None,
        leaving: bool = False,
    ) -> None:
        """Give a builder another state; what is true of it stays so, but for draining."""
        machine = self._machines.get(name)
        if machine is None:
            machine = self._machines[name] = _Machine()
        else:
            self.counts[machine.state] -= 1
        machine.there |= there
        machine.leaving |= leaving
        machine.running += running
        machine.draining = machine.draining if draining is None else draining
        self.counts[machine.state] += 1


def _write_states(run: Run, path: Path) -> None:
    machines = MachineStates()
    changes: list[tuple[float, list[int]]] = []
    for entry in run.entries():
        machines(entry.event, entry.commands)
        state = [machines.counts[name] for name in STATES[2:]]
        if not changes or state != changes[-1][1]:
            changes.append((entry.event.at, state))
    most = max((sum(state) for _, state in changes), default=0)
    with path.open("w", encoding="utf-8", newline="") as sink:
        table = csv.writer(sink, lineterminator="\n")
        table.writerow(STATES)
        table.writerows((at, most - sum(state), *state) for at, state in changes)


def _workload(rows: list[JobRow], builders: int) -> dict[str, Any]:
    names: dict[tuple[str, float], str] = {}
    jobs: list[dict[str, Any]] = []
    for row in rows:
        if row.service_time is None:
            continue
        key = (row.kind, row.service_time)
        profile = names.setdefault(key, f"{row.kind}-{len(names) + 1}")
        job = {"id": row.job_id, "subtime": row.arrived_at, "res": 1, "profile": profile}
        jobs.append(job if row.declared_time is None else job | {"walltime": row.declared_time})
    profiles = {
        name: {"type": "delay", "delay": time, "kind": kind} for (kind, time), name in names.items()
    }
    return {"nb_res": builders, "jobs": jobs, "profiles": profiles}


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
