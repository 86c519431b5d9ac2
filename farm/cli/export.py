"""``farm export``: a finished run in other programs' formats."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from farm.assembly import make_scheduler, pool_specs
from farm.cli.options import Quiet
from farm.core.errors import InputError
from farm.metrics.openmetrics import Backfill, replay
from farm.results.exports import EXPORTS
from farm.results.run_directory import SCENARIO, Run, load_run
from farm.scenario import load_scenario
from farm.units import parse_duration

OPENMETRICS = "openmetrics"
FORMATS = (*EXPORTS, OPENMETRICS)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory that a run left.")],
    wanted: Annotated[str, typer.Option("--format", "-f", help=f"One of {', '.join(FORMATS)}.")],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="A new file (batsim: a new directory)."),
    ],
    interval: Annotated[
        str, typer.Option(help="openmetrics: farm time between two samples.")
    ] = "1m",
    start: Annotated[
        str | None,
        typer.Option(
            help="openmetrics: when farm time 0 was (ISO 8601, UTC unless it says "
            "otherwise). Absent: so that the run ended when it was made."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a finished run as csv, swf, batsim, or openmetrics for back-filling into Prometheus.

    A back-filled run has the label instance=<the run directory's name>, and is looked at in the
    same dashboards as the live farm (docs/metrics.md).
    """
    if wanted not in FORMATS:
        raise InputError(f"--format: found {wanted!r}; allowed: {', '.join(FORMATS)}")
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file or directory")
    found = load_run(run)
    try:
        if wanted == OPENMETRICS:
            count, what = _openmetrics(found, out, _time(interval), start), "samples"
        else:
            count, what = EXPORTS[wanted](found, out), "jobs"
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from None
    if not quiet:
        Console(stderr=True).print(f"{out}: {count:,} {what}", highlight=False)


def _openmetrics(run: Run, out: Path, interval: float, start: str | None) -> int:
    scenario = load_scenario(run.path / SCENARIO)
    scheduler = make_scheduler(scenario)
    desired = {p.name: p.builders for p in pool_specs(scenario) if not p.provisioned}
    last = max((row.finished_at or 0.0 for row in run.jobs), default=0.0)
    began = _instant(start) if start is not None else _ended(run) - last
    sink = Backfill({"job": "run", "instance": run.name}, began)
    history = ((entry.event, entry.commands) for entry in run.entries())
    replay(scheduler, history, interval, sink.add, desired=desired)
    with out.open("x", encoding="utf-8", newline="\n") as file:
        return sink.write(file)


def _ended(run: Run) -> float:
    return _instant(run.meta.ended or run.meta.started)


def _instant(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--start: {error}; allowed: such as 2024-05-01T09:00:00Z") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _time(text: str) -> float:
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise InputError(f"--interval: {error}") from None
    if value <= 0:
        raise InputError(f"--interval: found {text}; allowed: more than 0")
    return value
