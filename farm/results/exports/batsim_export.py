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

import msgspec
import numpy as np

from farm.columns import Numbers, known, numbered, total
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
from farm.results.run_directory import Run
from farm.results.table.job_table import JobTable
from farm.results.table.jobs_csv import write_jobs

STATES = (
    "time",
    "nb_sleeping",
    "nb_switching_on",
    "nb_switching_off",
    "nb_idle",
    "nb_computing",
)
FINAL = {
    "succeeded": "COMPLETED_SUCCESSFULLY",
    "failed": "COMPLETED_FAILED",
    "cancelled": "COMPLETED_KILLED",
    "lost": "REJECTED",
}


def export(run: Run, out: Path) -> int:
    """Write the four files; return the number of jobs."""
    out.mkdir()
    jobs = run.jobs
    resource, resources = numbered([name or None for name in jobs["builder"].tolist()])
    builders = len(resources)
    write_jobs(out / "jobs.csv", [_table(run.summary.name, jobs, resource)])
    _write_states(run, out / "machine_states.csv")
    for name, content in (
        ("schedule", _schedule(jobs, builders)),
        ("workload", _workload(jobs, builders)),
    ):
        text = msgspec.json.format(msgspec.json.encode(content), indent=2)
        (out / f"{name}.json").write_bytes(text + b"\n")
    return len(jobs)


def _table(workload: str, jobs: JobTable, resource: Numbers) -> JobTable:
    """Return the table of jobs with Batsim's columns."""
    count, outcome, declared = len(jobs), jobs["outcome"], jobs["declared_time_s"]
    return JobTable(
        {
            "job_id": jobs["job_id"],
            "workload_name": np.full(count, workload),
            "profile": jobs["kind"],
            "submission_time": jobs.arrived_at,
            "requested_number_of_resources": np.ones(count, np.int64),
            "requested_time": np.where(np.isnan(declared), -1.0, declared),
            "success": (outcome == "succeeded").astype(np.int64),
            "final_state": np.array([FINAL[one] for one in outcome.tolist()]),
            "starting_time": jobs["started_at_s"],
            "execution_time": jobs["service_time_s"],
            "finish_time": jobs["finished_at_s"],
            "waiting_time": jobs["waiting_time_s"],
            "turnaround_time": jobs["response_time_s"],
            "stretch": jobs["stretch"],
            "allocated_resources": np.where(resource < 0, "", resource.astype(np.str_)),
            "metadata": np.full(count, ""),
        }
    )


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


def _workload(jobs: JobTable, builders: int) -> dict[str, object]:
    names: dict[tuple[str, float], str] = {}
    written: list[dict[str, object]] = []
    ran = jobs.taken(~np.isnan(jobs["service_time_s"]))
    for row, arrived_at in zip(ran, ran.arrived_at.tolist(), strict=True):
        key = (row["kind"], row["service_time_s"])
        profile = names.setdefault(key, f"{row['kind']}-{len(names) + 1}")
        job = {"id": row["job_id"], "subtime": arrived_at, "res": 1, "profile": profile}
        declared = row["declared_time_s"]
        # a walltime ends a job there; here a job may run for longer than was declared
        if declared >= row["service_time_s"]:
            job["walltime"] = declared
        written.append(job)
    profiles = {
        name: {"type": "delay", "delay": time, "kind": kind} for (kind, time), name in names.items()
    }
    return {"nb_res": builders, "jobs": written, "profiles": profiles}


def _schedule(jobs: JobTable, machines: int) -> dict[str, object]:
    ran = jobs.taken(~np.isnan(jobs["finished_at_s"]) & ~np.isnan(jobs["waiting_time_s"]))
    began = float(ran.arrived_at.min()) if len(ran) else 0.0
    outcomes = Counter(jobs["outcome"].tolist())
    values: dict[str, object] = {
        "makespan": float(ran["finished_at_s"].max(initial=0.0)) - began,
        "nb_jobs": len(jobs),
        "nb_jobs_finished": len(ran),
        "nb_jobs_success": outcomes["succeeded"],
        "nb_jobs_killed": outcomes["cancelled"],
        "nb_jobs_rejected": outcomes["lost"],
        "success_rate": outcomes["succeeded"] / len(jobs) if len(jobs) else 0.0,
        "nb_computing_machines": machines,
        "time_computing": total(known(ran["service_time_s"])),
    }
    for key, column in (
        ("waiting_time", "waiting_time_s"),
        ("turnaround_time", "response_time_s"),
        ("slowdown", "stretch"),
    ):
        found = known(ran[column])
        values[f"mean_{key}"] = total(found) / len(found) if len(found) else 0.0
        values[f"max_{key}"] = float(found.max(initial=0.0))
    return values
