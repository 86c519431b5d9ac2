"""``farm explain``: why a job went where it went; live, or in a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from farm.assembly import make_scheduler
from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach
from farm.cli.options import AsJson
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.core.explain import Decision
from farm.results.log_reader import read_log
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

    The decisions of a recorded run are made again: its log is replayed through a scheduler.
    """
    found = _live(what, redis, folder) if job is None else _recorded(Path(what), job)
    if as_json:
        typer.echo(msgspec.json.encode([msgspec.to_builtins(one) for one in found]).decode())
        return
    for one in found:
        _show(one)


def _live(job_id: str, redis: str | None, folder: Path) -> list[Decision]:
    if redis is None and Path(what := job_id).is_dir():
        raise InputError(f"{what} is a run directory: name the job with --job ID")
    with reach(redis, folder) as operator:
        operator.status()
        found = operator.job(job_id)
        if found is None:
            raise InputError(f"job {job_id!r} is not known to the farm")
        answer = operator.ask("job", job_id)
    if answer.decision is not None:
        return [answer.decision]
    if answer.job is not None and answer.job.ahead is not None:
        raise InputError(f"job {job_id!r} has not been dispatched: {answer.job.why or 'it waits'}")
    raise InputError(
        f"the decision on job {job_id!r} is not remembered: the scheduler keeps the last ones, "
        "and forgets them when it starts again; a recorded run keeps all (farm explain RUN --job)"
    )


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
    console = Console(highlight=False)
    console.print(
        f"[bold]{decision.job}[/] went to [bold]{decision.builder}[/], slot {decision.slot}, "
        f"at {format_duration(round(decision.at, 3))} ({decision.platform})"
    )
    if decision.path:
        console.print(f"charged to {' / '.join(decision.path)}")
    console.print(f"its key: {_key(decision.key)}; {decision.waiting} others waited")
    if decision.next:
        table = Table(title="competing jobs, best first", box=None, title_justify="left")
        table.add_column("job")
        table.add_column("key")
        for other in decision.next:
            table.add_row(other.job, _key(other.key))
        console.print(table)
    if not decision.free_builders:
        console.print("no other builder was free: this slot was, just then")
        return
    table = Table(title="free builders, best first", box=None, title_justify="left")
    table.add_column("builder")
    table.add_column("rank", justify="right")
    for name, rank in decision.free_builders:
        table.add_row(name, f"{rank:g}")
    console.print(table)


def _key(key: object) -> str:
    if isinstance(key, tuple | list):
        return f"({', '.join(_key(part) for part in key)})"
    return f"{key:g}" if isinstance(key, float) else str(key)
