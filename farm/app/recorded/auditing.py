"""Audits of recorded runs: their logs are replayed through a new scheduler, which also explains."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from farm.app.recorded.played_again import load_run, played_again
from farm.app.runs.estimating import Estimating
from farm.core.commands import Command
from farm.core.dispatching.decisions import Decision
from farm.core.errors import InputError, InvariantError
from farm.core.events import JobsSubmitted
from farm.core.scheduler import Scheduler
from farm.live.store.log_drain import position_in
from farm.results.audit.auditor import Auditor
from farm.results.log.reader import Entry
from farm.results.log.replay import LogComparison, replay
from farm.results.run_directory import EVENTS, JOBS, SUMMARY, Run
from farm.sim.garbage import no_garbage_collection


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
        scheduler = scheduler_like(run)
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
            wrong = _missing(run, auditor)
            if not wrong and run.is_written:
                wrong = cut_short(path)
    except InvariantError as error:
        wrong = str(error)
    if run.is_written:
        wrong = lines_lost(path) or wrong
    jobs = len(auditor.jobs)
    return Audit(events=auditor.events, jobs=jobs, wrong=wrong, not_replayed=not_replayed)


def _missing(run: Run, auditor: Auditor) -> str:
    """Return how the log, which the auditor has seen, and the other files differ; empty: not."""
    if not auditor.events:
        return f"{EVENTS} has no events"
    if run.state == "running":
        return ""
    logged = {name: audited.outcome or "lost" for name, audited in auditor.jobs.items()}
    listed = dict(zip(run.jobs["job_id"].tolist(), run.jobs["outcome"].tolist(), strict=True))
    if logged != listed:
        one = next(n for n in logged | listed if logged.get(n) != listed.get(n))
        ways = [found.get(one, "not there") for found in (logged, listed)]
        return f"job {one!r} is {ways[0]} by {EVENTS}, and {ways[1]} by {JOBS}"
    summed_up = run.summary
    if summed_up.events != auditor.events:
        return f"{EVENTS} has {auditor.events:,} events; {SUMMARY} says {summed_up.events:,}"
    counts = Counter[str]([*logged.values(), *["submitted"] * len(logged)])
    for name in summed_up.jobs.__struct_fields__:
        count = getattr(summed_up.jobs, name)
        # the summary may be of a part of the run
        if count > counts[name] or (summed_up.run_phase is None and count != counts[name]):
            return f"{counts[name]:,} jobs {name} by {EVENTS}; {SUMMARY} says {count:,}"
    return ""


def cut_short(folder: Path) -> str:
    """Return what the log of a long-running farm lacks of what was written; empty: nothing."""
    size = position_in(folder).size
    found = (folder / EVENTS).stat().st_size
    return f"{EVENTS} has {found:,} bytes, {size:,} were written" if found < size else ""


def lines_lost(folder: Path) -> str:
    """Return what the log of a long-running farm never got; empty: nothing."""
    words = position_in(folder).lost_in_words
    return words and f"{EVENTS} is not whole: {words}, deleted on the Redis server"


def scheduler_like(run: Run, *, explain_last: int = 0) -> Scheduler:
    """Return a fresh scheduler like the run's own; raises InputError if none can be made."""
    return Estimating(run.scenario, live=run.meta.world == "live", again=played_again).scheduler(
        explain_last
    )


def same_commands(run: Run) -> Callable[[Entry, Sequence[Command]], None]:
    """Return a check that raises InputError if a fresh scheduler answers otherwise than the log."""
    comparison = LogComparison()

    def check(entry: Entry, answer: Sequence[Command]) -> None:
        if (difference := comparison.of(entry, answer)) is not None:
            raise InputError(
                f"{run.path}: cannot be replayed: from line {difference.line} of its event log on "
                "a new scheduler decides otherwise (see farm admin audit); allowed: a run whose "
                "own code, and what its estimates.learn_from names, are as they were"
            )

    return check


def _audited(entries: Iterable[Entry], auditor: Auditor) -> Iterator[Entry]:
    for entry in entries:
        if not entry.cut:
            auditor(entry.event, entry.commands)
        yield entry


def decisions_on(run: Path, job: str) -> list[Decision]:
    """Replay the log up to the job's end; return the decisions on all its attempts.

    Raises InputError for what is not a run, for one whose decisions a new scheduler does not make
    again, or for a job that was never dispatched in it.
    """
    recorded = load_run(run, unfinished=True)
    scheduler, check = scheduler_like(recorded, explain_last=1_000_000), same_commands(recorded)
    decisions: list[Decision] = []
    known = False
    for entry in recorded.entries():
        event = entry.event
        if isinstance(event, JobsSubmitted):
            known = known or any(one.id == job for one in event.jobs)
        check(entry, scheduler.handle(event))
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
