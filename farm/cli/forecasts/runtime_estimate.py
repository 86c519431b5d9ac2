"""``farm runtime-estimate``: how long a job will run, and on what the estimate is based."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.app.forecasts.run_times import ClientSide, RunTime, alike, learned_from, quorum
from farm.app.jobs.json_lines import parse_platform
from farm.core.model import Builder, Platform
from farm.terminal.console import plain
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis, seconds_of
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing, folding, numbers, texts
from farm.units import format_roughly

_COLUMNS = (
    *texts("builder", "pool"),
    *numbers("speed", "run time", "rest"),
    *folding("by"),
    *numbers("samples"),
)


def runtime_estimate(
    source: Annotated[Path | None, typer.Argument(metavar="[RUN|FILE]")] = None,
    job: Annotated[str | None, typer.Option(metavar="ID")] = None,
    kind: str = "job",
    size: float | None = None,
    declared: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    platform: str | None = None,
    builder: str | None = None,
    size_bound: Annotated[float | None, typer.Option(min=0)] = None,
    deadline: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    replicas: Annotated[int | None, typer.Option(min=1)] = None,
    estimator: str | None = None,
    at: Annotated[str | None, typer.Option(metavar="TIME")] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Show how long a job will run, and the rung and number of samples behind the estimate.

    Estimates are for a builder of speed 1 (as while it waits), and for each builder that may run
    it; for a running job, for its builder, with the remaining time by its progress. A hypothetical
    job without --size and --declared has the means of its kind's jobs. Builders of a pool with
    equal estimates share a row; with --json each has its own, and --replicas a last one.

    Args:
        source: A run directory, snapshot or state file. Default: the live farm.
        job: The id of an existing job.
        kind: For a hypothetical job: its kind.
        size: For a hypothetical job: its size.
        declared: For a hypothetical job: its declared time.
        platform: For a hypothetical job: its platform, such as amd64/virtual.
        builder: Only on this builder.
        size_bound: For BOINC: the bound on operations after which a client ends a job.
        deadline: Check whether each builder would finish it within this time.
        replicas: Estimate when this many replicas sent now are all finished.
        estimator: Use another runtime estimator, trained on the run directory.
        at: Ask at this time of the run, with what was known then. Default: its end.
    """
    bound = None if deadline is None else seconds_of(deadline, "--deadline", least=0)
    client = ClientSide(size_bound=size_bound, deadline=bound)
    with progress("learning", silent=as_json):
        asked_at = None if at is None else seconds_of(at, "--at", least=0)
        learned = learned_from(source, redis, folder, estimator, asked_at)
    learned = msgspec.structs.replace(learned, client=client)
    if job is not None:
        wanted, assumed = learned.job(job), ""
    else:
        time = None if declared is None else seconds_of(declared, "--declared", least=0)
        place = _platform(platform, learned.builders.values())
        wanted, assumed = learned.hypothetical(kind, place, size, time)
    rows = learned.run_times(wanted, builder)
    done = None if replicas is None else quorum(rows, replicas)
    if as_json:
        print_json(*rows)
        if done is not None:
            print_json({"replicas": replicas, "done_in_s": done[0], "builders": done[1]})
        return
    what = wanted.id or f"a job of the kind {wanted.kind}"
    note(plain(f"{what} ({wanted.platform}), by {learned.estimator.name}", 1000))
    if assumed:
        note(plain(f"({assumed})", 1000))
    cells = [_cells(row, count) for row, count in alike(rows)]
    note(Listing(_COLUMNS, cells, first_to_go=("rest", "speed", "pool")))
    if done is not None:
        words = f"{replicas} replicas are done in {format_roughly(done[0])}"
        note(plain(f"{words}, on {', '.join(done[1])}", 1000))


def _platform(given: str | None, builders: Iterable[Builder]) -> Platform:
    if given is not None:
        return parse_platform(given, "--platform", None)
    first = next(iter(builders), None)
    if first is None:
        return Platform()
    return Platform(first.processors[0] if first.processors else None, first.virtualized)


def _cells(row: RunTime, count: int) -> tuple[str, ...]:
    name = "(waiting)" if row.builder is None else row.builder
    rest = "" if row.remaining_s is None else format_roughly(row.remaining_s)
    notes = [row.rung]
    if row.size_scale is not None:
        notes.append(f"told size * {row.size_scale:g}")
    if row.own_estimate_s is not None:
        notes.append(f"it estimates {format_roughly(row.own_estimate_s)}")
    if row.done is not None:
        notes.append(f"{100 * row.done:.0f} % done")
    if row.limit_s is not None:
        notes.append(f"ended after {format_roughly(row.limit_s)}")
    if row.late_s is not None:
        late = format_roughly(row.late_s)
        sent = ", yet sent: it is idle" if row.sent else ""
        notes.append(f"late by {late}{sent}" if row.late_s else "in time")
    return (
        name if count == 1 else f"{name} and {count - 1} more", row.pool or "", f"{row.speed:g}",
        format_roughly(row.estimate_s), rest, "; ".join(notes), f"{row.samples:,}",
    )  # fmt: skip
