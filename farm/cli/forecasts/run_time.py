"""``farm admin estimate --run-time``: how long a job will run, and by what that is known."""

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
from farm.terminal.options import seconds_of
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing, folding, numbers, texts
from farm.units import format_roughly

_COLUMNS = (
    *texts("builder", "pool"),
    *numbers("speed", "run time", "rest"),
    *folding("by"),
    *numbers("samples"),
)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Of what job, where and by what a run time is asked. The comments are the options' help."""

    #: a hypothetical job of this kind
    kind: str = "job"
    #: a hypothetical job of this size
    size: float | None = None
    #: a hypothetical job of this declared time
    declared: Annotated[str | None, typer.Option(metavar="TIME")] = None
    #: a hypothetical job for this platform, such as amd64/virtual
    platform: str | None = None
    #: only on this builder
    builder: str | None = None
    #: for BOINC, the bound on operations after which a client ends a job
    size_bound: Annotated[float | None, typer.Option(min=0)] = None
    #: check whether each builder would finish it within this time
    deadline: Annotated[str | None, typer.Option(metavar="TIME")] = None
    #: estimate when this many replicas sent now are all finished
    replicas: Annotated[int | None, typer.Option(min=1)] = None
    #: use another runtime estimator, trained on the run
    estimator: str | None = None
    #: ask at this time of the run, with what was known then, not at its end
    at: Annotated[str | None, typer.Option(metavar="TIME")] = None


def show_run_time(
    source: Path | None,
    job: str | None,
    asked: Question,
    place: tuple[str | None, Path],
    *,
    as_json: bool,
) -> None:
    """Print how long a job will run, on each builder, and the rung behind each estimate."""
    builder, replicas = asked.builder, asked.replicas
    bound = _seconds(asked.deadline, "--deadline")
    client = ClientSide(size_bound=asked.size_bound, deadline=bound)
    with progress("learning", silent=as_json):
        learned = learned_from(source, *place, asked.estimator, _seconds(asked.at, "--at"))
    learned = msgspec.structs.replace(learned, client=client)
    if job is not None:
        wanted, assumed = learned.job(job), ""
    else:
        time = _seconds(asked.declared, "--declared")
        at = _platform(asked.platform, learned.builders.values())
        wanted, assumed = learned.hypothetical(asked.kind, at, asked.size, time)
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


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else seconds_of(text, option, least=0)


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
