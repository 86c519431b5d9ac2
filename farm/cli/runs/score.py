"""``farm admin score``: the accuracy of the dispatch estimates of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer

from farm.app.forecasts.run_times import rungs_of
from farm.app.recorded.estimates_of_run import scores_of
from farm.core.errors import InputError
from farm.results.estimate_scores import (
    Accuracy,
    Bin,
    RungScore,
    Score,
    answer_of,
)
from farm.results.figures.line_charts import Figure, write_figures
from farm.results.formatting import readable_span, sentence
from farm.terminal.cells import numbers, styled, texts
from farm.terminal.options import AsJson, Plot, RunPath
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing
from farm.units import format_roughly, many

FAR_OFF = 10.0
"""From this multiple of the wait on, errors are said as one."""
MAX_RUNGS = 20
"""Rungs of an estimator that are shown, those of most jobs."""


def score(
    run: RunPath,
    run_times: Annotated[list[str] | None, typer.Option(metavar="ESTIMATOR")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Compare a run's dispatch estimates with the actual dispatches.

    Errors are estimate - truth: a positive bias means that jobs were dispatched earlier than
    estimated. Ranges (P10 - P90) should hold 80 % of their jobs, at each horizon, on each platform,
    at each level. Two forecasts that need no model stand beside: the median of the last 20 waits,
    and the jobs ahead divided by the throughput of the last 20 ends. With --run-times, RUN is also
    a bundle of records.

    Args:
        run_times: Show the accuracy of this estimator's run times instead, over all jobs and rung
            by rung; repeatable.

    Examples:
        farm admin score run                     how true were the estimates?
        farm admin score run --plot calibration.svg
        farm admin score run --run-times last-3  what this estimator would have said
    """
    if run_times:
        if plot is not None:
            raise InputError("--plot: found with --run-times; allowed: with dispatch estimates")
        with progress("replaying", silent=as_json):
            found = rungs_of(run, run_times)
        if as_json:
            print_json(found, pretty=True)
        else:
            note(*_rungs(found))
        return
    with progress("reading", silent=as_json):
        scores = scores_of(run)
    if plot is not None:
        _plot(scores, plot)
    if as_json:
        print_json(scores, pretty=True)
        return
    note(
        styled(sentence(answer_of(scores)), "bold"),
        *_trust(scores),
        _overview(scores),
        _by_part(scores),
        _by("by number of waiting jobs", scores, "by_queue_length"),
    )
    if any(each.calibration and not each.naive for each in scores):
        note(_calibration(scores))
    if plot is not None:
        note(f"Calibration plot written to {plot}")


def _plot(scores: Sequence[Score], path: Path) -> None:
    lines: dict[str, list[tuple[float, float]]] = {"ideal": [(0.0, 0.0), (1.0, 1.0)]}
    for each in scores:
        if each.calibration and not each.naive:
            lines[each.name] = [(one.level, one.observed) for one in each.calibration]
    if len(lines) == 1:
        raise InputError("--plot: no estimate of this run has quantiles; only rollouts do")
    axes = ("predicted: quantile of the estimate", "observed: share dispatched by then")
    write_figures(path, [Figure("Calibration of dispatch estimates", lines, axes)], "--plot")


def _trust(scores: Sequence[Score]) -> Iterator[str]:
    """Yield for each estimator whether it may be trusted; those of no ranges are worse than one."""
    judged = [one for one in scores if one.scored and not one.naive]
    proven = [one for one in judged if one.intervals] or judged
    for one in proven:
        yield f"{one.name}: {one.trust}."


def _overview(scores: Sequence[Score]) -> Listing:
    rows = (
        (
            each.name,
            str(each.scored),
            *_errors(each),
            _percent(each.within_minute),
            _percent(each.within_ten_minutes),
            str(each.without),
            str(each.at_once),
        )
        for each in scores
    )
    heads = ("jobs", "bias", "mean ±", "median ±", "relative", "±1min", "±10min", "none", "at once")
    return Listing(
        (*texts("estimator"), *numbers(*heads)),
        rows,
        title="Dispatch estimates of jobs that waited: errors",
        caption="± absolute error, ±1min: share within it; none: no estimate; "
        "at once: dispatched immediately",
    )


def _by_part(scores: Sequence[Score]) -> Listing:
    rows = []
    for each in scores:
        for part, jobs, one in _parts(each):
            shares = (one.within_p10_p90, one.within_p10, one.within_p90)
            rows.append(
                (
                    each.name,
                    part,
                    f"{jobs:,}",
                    _signed_percent(one.relative_bias),
                    _percent(one.relative_error),
                    *map(_percent, shares),
                    f"{one.intervals:,}",
                    readable_span(one.interval_time),
                    readable_span(one.interval_score_time),
                )
            )
    heads = ("jobs", "bias", "error", "P10 - P90", "≤ P10", "≤ P90", "ranges", "width", "score")
    return Listing(
        (*texts("estimator", "jobs of"), *numbers(*heads)),
        rows,
        title="By horizon, platform and level: error, and how often ranges held",
        first_to_go=("ranges", "≤ P90", "≤ P10", "width", "bias", "jobs", "score"),
        caption="bias, error: shares of the wait; P10 - P90 should hold 80% of its jobs; score: "
        "width, and ten times what a dispatch was outside by (less is better)",
    )


def _parts(score: Score) -> Iterator[tuple[str, int, Accuracy]]:
    """Yield a score's parts: all; of a model also by estimated wait, platform and level."""
    yield "all", score.scored, score
    if score.naive:
        return
    if len(score.by_horizon) > 1:
        for its in score.by_horizon:
            yield _range(its.low, its.high or float("inf"), seconds=True), its.count, its
    if len(score.by_platform) > 1:
        for platform in score.by_platform:
            yield platform.platform, platform.scored, platform
    if len(score.by_level) > 1:
        for level in score.by_level:
            yield f"level {level.level}", level.scored, level


def _signed_percent(value: float | None) -> str:
    if value is not None and abs(value) >= FAR_OFF:
        return f"{value:+,.0f} times"
    return "-" if value is None else f"{value:+.0%}"


def _rungs(scores: Sequence[RungScore]) -> Iterator[Listing | str]:
    """Yield a sentence for each estimator, and the table of its rungs.

    An estimator with a rung for each builder may have thousands: the most used ones are shown.
    """
    shown: list[RungScore] = []
    for _, group in groupby(scores, key=attrgetter("estimator")):
        total, *rungs = group
        yield _verdict(total)
        shown += [total, *rungs[:MAX_RUNGS]]
        if len(rungs) > MAX_RUNGS:
            hidden = rungs[MAX_RUNGS:]
            jobs = sum(score.jobs for score in hidden)
            yield (
                f"{total.estimator}: {len(hidden):,} more rungs, of {many(jobs, 'job')}, are not "
                "shown (--json has all)"
            )
    rows = (
        (f"{score.estimator}: {score.rung}", f"{score.jobs:,}", *_errors(score)) for score in shown
    )
    heads = ("jobs", "bias", "mean ±", "median ±", "relative")
    yield Listing(
        (*texts("estimator and rung"), *numbers(*heads)),
        rows,
        title="Run-time estimates at dispatch, of jobs that succeeded",
        caption="each estimator started without history; ± absolute error",
    )


def _verdict(total: RungScore) -> str:
    """Return in a sentence how far an estimator was off."""
    error = readable_span(total.mean_absolute_error_time)
    return (
        f"{total.estimator}: off by {error} on average over {many(total.jobs, 'job')}, "
        f"{_percent(total.relative_error)} of their run time"
    )


def _errors(one: Score | RungScore) -> tuple[str, ...]:
    return (
        _signed(one.bias_time),
        readable_span(one.mean_absolute_error_time),
        readable_span(one.median_absolute_error_time),
        _percent(one.relative_error),
    )


def _by(title: str, scores: Sequence[Score], field: str) -> Listing:
    edges = sorted({(b.low, b.high or float("inf")) for s in scores for b in getattr(s, field)})
    heads = [_range(low, high, seconds=False) for low, high in edges]
    columns = (*texts("estimator"), *numbers(*heads))
    rows = []
    for each in scores:
        bins: dict[float, Bin] = {one.low: one for one in getattr(each, field)}
        found = (bins.get(low) for low, _ in edges)
        rows.append(
            [
                each.name,
                *(
                    f"{_percent(b.relative_error)} ({_signed(b.bias_time)})" if b else ""
                    for b in found
                ),
            ]
        )
    return Listing(columns, rows, title=f"Relative error (and bias), {title}")


def _calibration(scores: Sequence[Score]) -> Listing:
    calibrated = [each for each in scores if each.calibration]
    levels = (f"{one.level:.0%}" for one in calibrated[0].calibration)
    return Listing(
        (*texts("estimator"), *numbers(*levels)),
        ((each.name, *(_percent(one.observed) for one in each.calibration)) for each in calibrated),
        title="Calibration: share of the jobs dispatched by each quantile",
    )


def _range(low: float, high: float, *, seconds: bool) -> str:
    write = format_roughly if seconds else (lambda value: f"{value:g}")
    if high == float("inf"):
        return f"from {write(low)}"
    return f"{write(low)} - {write(high if seconds else high - 1)}"


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{'+' if value >= 0 else ''}{format_roughly(value)}"


def _percent(value: float | None) -> str:
    if value is not None and value >= FAR_OFF:
        return f"{value:,.0f} times"
    return "-" if value is None else f"{value:.0%}"
