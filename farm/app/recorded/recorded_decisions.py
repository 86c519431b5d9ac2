"""The decisions of a recorded run, made again by a scheduler that its log is replayed through."""

from __future__ import annotations

from pathlib import Path

from farm.assembly import make_scheduler
from farm.core.dispatching.decisions import Decision
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.results.log.reader import read_log
from farm.scenario import load_scenario


def decisions_on(run: Path, job: str) -> list[Decision]:
    """Replay the log up to the job's end; return the decisions on all its attempts.

    Raises InputError for what is not a run, or for a job that was never dispatched in it.
    """
    for name in ("scenario.yaml", "events.jsonl"):
        if not (run / name).exists():
            raise InputError(f"{run}: found no {name}; allowed: a run directory (farm run --out)")
    scheduler = make_scheduler(load_scenario(run / "scenario.yaml"), explain_last=1_000_000)
    decisions: list[Decision] = []
    known = False
    for entry in read_log(run / "events.jsonl"):
        event = entry.event
        if isinstance(event, JobsSubmitted):
            known = known or any(one.id == job for one in event.jobs)
        scheduler.handle(event)
        if known:
            decision = scheduler.dispatcher.decisions.get(job)
            if decision is not None and (not decisions or decisions[-1] is not decision):
                decisions.append(decision)
            if job not in scheduler.jobs:
                break
    if not known:
        raise InputError(f"{run}: job {job!r} is not in this run")
    if not decisions:
        raise InputError(f"{run}: job {job!r} was never dispatched")
    return decisions
