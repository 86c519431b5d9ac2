"""``farm score``: compares the dispatch estimates of a run with what came true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from farm.core.errors import InputError
from farm.results.figures.lines import Figure, write_figures
from farm.results.run_directory import load_run
from farm.results.scoring import Bin, Score
from farm.results.scoring import score as score_run
from farm.terminal.options import AsJson
from farm.units import format_duration


def score(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    plot: Annotated[
        Path | None,
        typer.Option("--plot", "-o", help="Write the calibration plot (.svg or .html)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a run's dispatch estimates with the dispatches that followed.

    Errors are estimate - truth: a positive bias means that jobs were dispatched earlier than told.
    """
    scores = score_run(load_run(run, unfinished=True).entries())
    if not scores:
        raise InputError(
            f"{run}: no estimates were given in this run; name who is to give them, such as "
            "--set 'estimates.rules=[launchpad, rollout]'"
        )
    if plot is not None:
        _plot(scores, plot)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(scores), indent=2).decode())
        return
    console = Console()
    console.print(_overview(scores))
    for title, bins in (
        ("by jobs waiting when it was given", "by_queue_length"),
        ("by the wait that was estimated", "by_horizon"),
    ):
        console.print(_by(title, scores, bins))
    if any(each.calibration for each in scores):
        console.print(_calibration(scores))
    if plot is not None:
        console.print(f"Calibration plot written to {plot}", highlight=False, soft_wrap=True)


def _plot(scores: Sequence[Score], path: Path) -> None:
    lines: dict[str, list[tuple[float, float]]] = {"ideal": [(0.0, 0.0), (1.0, 1.0)]}
    for each in scores:
        if each.calibration:
            lines[each.name] = [(one.level, one.observed) for one in each.calibration]
    if len(lines) == 1:
        raise InputError("--plot: no estimate of this run has quantiles; only rollouts do")
    axes = ("promised: quantile of the estimate", "kept: share dispatched by then")
    write_figures(path, [Figure("Calibration of dispatch estimates", lines, axes)], "--plot")


def _overview(scores: Sequence[Score]) -> Table:
    table = Table(title="Dispatch estimates of jobs that waited: errors, and promises kept")
    table.add_column("estimator", no_wrap=True)
    for heading in ("jobs", "bias", "mean ±", "median ±", "relative", "≤ P90", "none", "at once"):
        table.add_column(heading, justify="right")
    table.caption = "± absolute error; none: no estimate; at once: nothing to estimate"
    for each in scores:
        table.add_row(
            each.name,
            str(each.scored),
            _signed(each.bias_time),
            _span(each.mean_absolute_error_time),
            _span(each.median_absolute_error_time),
            _percent(each.relative_error),
            _percent(each.within_p90),
            str(each.without),
            str(each.at_once),
        )
    return table


def _by(title: str, scores: Sequence[Score], field: str) -> Table:
    table = Table(title=f"Relative error (and bias), {title}")
    table.add_column("estimator", no_wrap=True)
    edges = sorted({(b.low, b.high or float("inf")) for s in scores for b in getattr(s, field)})
    for low, high in edges:
        table.add_column(_range(low, high, seconds=field == "by_horizon"), justify="right")
    for each in scores:
        bins: dict[float, Bin] = {one.low: one for one in getattr(each, field)}
        cells = []
        for low, _ in edges:
            one = bins.get(low)
            text = (
                "" if one is None else f"{_percent(one.relative_error)} ({_signed(one.bias_time)})"
            )
            cells.append(text)
        table.add_row(each.name, *cells)
    return table


def _calibration(scores: Sequence[Score]) -> Table:
    table = Table(title="Calibration: share of the jobs dispatched by each quantile")
    table.add_column("estimator", no_wrap=True)
    told = [each for each in scores if each.calibration]
    for one in told[0].calibration:
        table.add_column(f"{one.level:.0%}", justify="right")
    for each in told:
        table.add_row(each.name, *(_percent(one.observed) for one in each.calibration))
    return table


def _range(low: float, high: float, *, seconds: bool) -> str:
    write = format_duration if seconds else (lambda value: f"{value:g}")
    if high == float("inf"):
        return f"from {write(low)}"
    return f"{write(low)} - {write(high if seconds else high - 1)}"


def _span(value: float | None) -> str:
    return "-" if value is None else format_duration(float(round(value)))


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{'+' if value >= 0 else '-'}{format_duration(float(round(abs(value))))}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
