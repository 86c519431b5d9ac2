"""``farm explain``: why a job went where it went; live, or in a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from farm.assembly import make_scheduler
from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach
from farm.cli.jobs import known_of, tried
from farm.cli.options import AsJson
from farm.cli.pools import hints_for
from farm.cli.showing import Column, FarmConsole, listing, many, plain
from farm.core.dispatching.decisions import Decision
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.live.operating.answers import Answer
from farm.live.store.job_reader import LiveJob
from farm.results.log.reader import read_log
from farm.scenario import load_scenario
from farm.units import format_duration


def explain(
    what: Annotated[
        str, typer.Argument(metavar="ID|RUN", help="A job of a live farm, or a run directory.")
    ],
    job: Annotated[
        str | None, typer.Option("--job", help="The job, if RUN is a run directory.")
    ] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Explain a dispatch: who competed, on which key, and which builders were free.

    Of a live job that waits: why. The decisions of a recorded run are made again: its log is
    replayed through a scheduler.
    """
    if job is None:
        _explain_live(what, redis, folder, as_json=as_json)
        return
    found = _recorded(Path(what), job)
    if as_json:
        typer.echo(msgspec.json.encode([msgspec.to_builtins(one) for one in found]).decode())
        return
    for one in found:
        _show(one)


def _explain_live(job_id: str, redis: str | None, folder: Path, *, as_json: bool) -> None:
    if redis is None and Path(job_id).is_dir():
        raise InputError(f"{job_id} is a run directory: name the job with --job ID")
    with reach(redis, folder) as operator:
        found, tries, answer = known_of(operator, job_id)
        hints = [] if found.end is not None else hints_for(operator, found.job.platform)
    decision = None if answer is None else answer.decision
    said = _said(found, answer)
    if as_json:
        told: dict[str, object] = {"job": job_id, "state": found.state, "said": said}
        if decision is not None:
            told |= msgspec.to_builtins(decision)
        typer.echo(msgspec.json.encode([told]).decode())
        return
    console = FarmConsole()
    for one in tries:
        console.print(plain(f"attempt {one.attempt} {tried(one)}", 1000), soft_wrap=True)
    if decision is not None:
        _show(decision)
    for line in [said, *(hints if found.state == "waiting" else [])]:
        console.print(plain(line, 1000), soft_wrap=True)


def _said(found: LiveJob, answer: Answer | None) -> str:
    """Say where the job stands, and what cannot be said of its dispatch."""
    name, now = found.job.id, None if answer is None else answer.job
    if answer is None:
        rest = "why, only its scheduler could say, which is not at work"
    elif answer.decision is not None:
        rest = ""
    else:
        rest = (
            "how it was dispatched is not remembered (a scheduler keeps its last decisions, and "
            "none across a restart; a recorded run keeps all: farm explain RUN --job)"
        )
    if now is not None and now.why:
        return f"{name} waits: {now.why}"
    if (end := found.end) is None:
        where = "" if found.attempt is None else f" on {found.attempt.builder}"
        return f"{name} is {found.state}{where}; {rest}".rstrip("; ")
    if end.builder is None:
        rest = "it was never dispatched"
    if end.served_by is not None:
        rest = f"{end.served_by}, which does the same action, was executed for both"
    when = format_duration(round(end.finished_at))
    why = f" ({end.reason})" if end.reason else ""
    return f"{name} {found.state} at {when}{why}; {rest}".rstrip("; ")


def _recorded(run: Path, job: str) -> list[Decision]:
    """Replay the log up to the job's end; return the decisions on all its attempts."""
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


def _show(decision: Decision) -> None:
    console = FarmConsole()
    names = (decision.job, decision.builder, decision.platform)
    job, builder, platform = (plain(name) for name in names)
    console.print(
        Text.assemble(
            (job, "bold"), " went to ", (builder, "bold"), f", slot {decision.slot}, "
            f"at {format_duration(round(decision.at, 3))} ({platform})",
        )
    )  # fmt: skip
    if decision.path:
        console.print(plain(f"charged to {' / '.join(decision.path)}"))
    console.print(f"its key: {_key(decision.key)}; {many(decision.waiting, 'other')} waited")
    if decision.next:
        console.print("competing jobs, best first", style="italic")
        rows = [(other.job, _key(other.key)) for other in decision.next]
        console.print(listing((Column("job"), Column("key", folds=True)), rows, console.width))
    if not decision.free_builders:
        console.print("no other builder was free: this slot was, just then")
        return
    console.print("free builders, best first", style="italic")
    ranks = [(name, f"{rank:g}") for name, rank in decision.free_builders]
    console.print(listing((Column("builder"), Column("rank", right=True)), ranks, console.width))


def _key(key: object) -> str:
    if isinstance(key, tuple | list):
        return f"({', '.join(_key(part) for part in key)})"
    return f"{key:g}" if isinstance(key, float) else str(key)
