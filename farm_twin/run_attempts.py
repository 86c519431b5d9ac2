"""Every attempt of a finished run, as a system that ran those jobs would have recorded them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from farm.core.commands import RequeueJob
from farm.core.events import JobsSubmitted, JobStarted
from farm.core.model import Job
from farm.records.attempt import Attempt
from farm.results.run_directory import Run
from farm_twin.importing import load_records
from farm_twin.sources import export_attempts

Void = tuple[float, float, str]
"""An attempt after which its job was queued again: its start, its end, its builder."""


def export_records(source: str, records: Path | Run, out: Path) -> int:
    """Write a bundle of records, or a run, as another system records jobs; return how many."""
    attempts = (
        attempts_of(records) if isinstance(records, Run) else load_records([records]).attempts
    )
    return export_attempts(source, attempts, out)


def attempts_of(run: Run) -> list[Attempt]:
    """Return the attempts of a run, by when they could start.

    The table of jobs has the last attempt of each; those before it, and whose job it was, are in
    the event log.
    """
    void, attributes = _from_log(run)
    with run.jobs_file() as table:
        last_attempts = load_records([table]).attempts
    attempts: list[Attempt] = []
    for last in last_attempts:
        attempts += _tries(last, void.get(last.id, ()), attributes.get(last.id, {}))
    return sorted(attempts, key=lambda attempt: attempt.arrived_at)


def _from_log(run: Run) -> tuple[dict[str, list[Void]], dict[str, dict[str, str]]]:
    void: dict[str, list[Void]] = defaultdict(list)
    attributes: dict[str, dict[str, str]] = {}
    started: dict[str, float] = {}
    for entry in run.entries():
        if entry.ignored:
            continue
        event = entry.event
        if isinstance(event, JobsSubmitted):
            attributes |= {job.id: _attributes(job) for job in event.jobs}
        elif isinstance(event, JobStarted):
            started[event.job] = event.at
        for command in entry.commands:
            if isinstance(command, RequeueJob) and command.job in started:
                one = started.pop(command.job), event.at, command.builder
                void[command.job].append(one)
    return void, attributes


def _attributes(job: Job) -> dict[str, str]:
    """Return the attributes of a job as records have them, with its level if it has one."""
    return {**job.attributes, "level": str(job.level)} if job.level else job.attributes


def _tries(
    last: Attempt, void: list[Void] | tuple[()], attributes: dict[str, str]
) -> Iterator[Attempt]:
    last.user = attributes.get("user") or attributes.get("invocation", "")
    if "level" in attributes:
        last.attributes = {**last.attributes, "level": attributes["level"]}
    since = last.arrived_at
    for number, (began, ended, builder) in enumerate(void, 1):
        yield msgspec.structs.replace(
            last,
            id=f"{last.id}-{number}",
            job=last.id,
            attempt=number,
            submitted_at=since,
            eligible_at=since,
            started_at=began,
            finished_at=ended,
            result="lost",
            runner=builder,
        )
        since = ended
    if void:
        last.job, last.attempt = last.id, len(void) + 1
        last.submitted_at = last.eligible_at = since
    yield last
