"""Recorded runs replayed through a new scheduler: audited, and their decisions explained."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from farm.app.runs.estimates import Estimating
from farm.assembly import make_scheduler
from farm.core.dispatching.decisions import Decision
from farm.core.errors import InputError, InvariantError
from farm.core.events import JobsSubmitted
from farm.core.scheduler import Scheduler
from farm.results.audit.auditor import Auditor
from farm.results.log.reader import Entry, read_log
from farm.results.log.replay import replay
from farm.results.run_directory import EVENTS, SCENARIO, Run, load_run
from farm.scenario import load_scenario
from farm.sim.simulation import no_garbage_collection


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of an audit."""

    events: int
    jobs: int
    #: the first thing that is wrong; empty: nothing is
    wrong: str = ""
    #: why the run could not be replayed; empty: it was
    not_replayed: str = ""


def audit_run(path: Path) -> Audit:
    """Check a run's event log, and replay it through a fresh scheduler like the run's own.

    Of a run that was killed the last event may lack commands, and jobs may have no end. Raises
    InputError for what is not a run, or for a log that cannot be read.
    """
    run = load_run(path, unfinished=True)
    auditor, wrong, not_replayed = Auditor(), "", ""
    entries = _audited(run.entries(), auditor)
    try:
        scheduler = _scheduler_like(run)
    except InputError as error:
        scheduler, not_replayed = None, str(error)
    try:
        with no_garbage_collection():
            if scheduler is None:
                deque(entries, maxlen=0)
            elif (difference := replay(entries, scheduler)) is not None:
                wrong = f"a new scheduler decides otherwise at {difference}"
        if not wrong:
            auditor.close(expect_all_ended=run.meta.state == "finished")
    except InvariantError as error:
        wrong = str(error)
    jobs = len(auditor.jobs)
    return Audit(events=auditor.events, jobs=jobs, wrong=wrong, not_replayed=not_replayed)


def _scheduler_like(run: Run) -> Scheduler:
    """Return a fresh scheduler like the run's own; raises InputError if none can be made."""
    scenario = run.scenario
    estimator = Estimating(scenario, live=run.meta.world == "live").estimator
    return make_scheduler(scenario, estimator=estimator)


def _audited(entries: Iterable[Entry], auditor: Auditor) -> Iterator[Entry]:
    for entry in entries:
        if not entry.cut:
            auditor(entry.event, entry.commands)
        yield entry


def decisions_on(run: Path, job: str) -> list[Decision]:
    """Replay the log up to the job's end; return the decisions on all its attempts.

    Raises InputError for what is not a run, or for a job that was never dispatched in it.
    """
    for name in (SCENARIO, EVENTS):
        if not (run / name).exists():
            raise InputError(f"{run}: found no {name}; allowed: a run directory (farm run --out)")
    scheduler = make_scheduler(load_scenario(run / SCENARIO), explain_last=1_000_000)
    decisions: list[Decision] = []
    known = False
    for entry in read_log(run / EVENTS):
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
