"""Charts that compare settings: a dot for each mean or difference, a bar for its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from farm.results.comparison.answer import Choice, frontier
from farm.results.comparison.comparison import Comparison
from farm.results.comparison.metrics import Metric, Unit
from farm.results.comparison.significance import Interval
from farm.results.comparison.sweep import Sweep
from farm.results.comparison.tables import readable
from farm.results.figures.chart import COLOURS, Chart, label, time_unit

ROW = 0.34


class Dot(NamedTuple):
    """A value with its interval and its label."""

    name: str
    value: float
    interval: Interval | None
    remark: str


def trade_off_chart(choices: Sequence[Choice]) -> list[Chart]:
    """Return the picture of mean wait against cost, with the frontier; none for one setting.

    Only the base and the settings on the frontier have their names.
    """
    if len(choices) < 2:
        return []
    unit, scale = time_unit(max(one.wait for one in choices))
    chart = Chart(
        "Mean wait against cost",
        "cost (builder-hours, each at its pool's price)",
        f"mean wait ({unit})",
        height=3.4,
    )
    best = set(frontier(choices))
    line = sorted((one.cost, one.wait / scale) for one in choices if one.name in best)
    chart.axes.plot(
        *zip(*line, strict=True), color=COLOURS["c1"], drawstyle="steps-post",
        label="frontier: none waits less and costs no more",
    )  # fmt: skip
    for one in choices:
        chart.axes.plot(
            one.cost, one.wait / scale, "o", color=COLOURS["c1" if one.name in best else "c0"]
        )
    middle = (min(one.cost for one in choices) + max(one.cost for one in choices)) / 2
    top = max(one.wait for one in choices) / scale * 1.15 or 1.0
    for one in [choices[0], *(one for one in choices[1:] if one.name in best)]:
        # below a point of the frontier, to the left, there is no other
        side, right = ("right", -7) if one.cost > middle else ("left", 7)
        up = -13 if one.cost > middle and one.wait / scale > 0.12 * top else 5
        chart.axes.annotate(
            label(one.name, 34), (one.cost, one.wait / scale), (right, up),
            textcoords="offset points", ha=side, color=COLOURS["dim"],
        )  # fmt: skip
    chart.axes.set_ylim(0.0, top)
    chart.axes.margins(x=0.08)
    return [chart.finished()]


def sweep_charts(sweep: Sweep, metrics: Sequence[Metric]) -> list[Chart]:
    """Return for each metric the mean of every setting."""
    charts = []
    for metric in metrics:
        dots = [
            Dot(
                ", ".join(row.settings.values()) or sweep.scenario,
                row.mean,
                row.interval,
                row.verdict or ("baseline" if row.baseline is None and sweep.axes else ""),
            )
            for row in sweep.rows
            if row.metric == metric.name and row.mean is not None
        ]
        if dots:
            charts.append(_dots(metric.name.replace("_", " "), dots, metric.unit))
    return charts


def comparison_charts(comparison: Comparison, metrics: Sequence[Metric]) -> list[Chart]:
    """Return for each metric the difference of every setting from the base."""
    charts = []
    for metric in metrics:
        dots = [
            Dot(pair.other, found.difference, found.interval, found.verdict or "")
            for pair in comparison.pairs
            for found in pair.metrics
            if found.metric == metric.name and found.difference is not None
        ]
        if dots:
            name = metric.name.replace("_", " ")
            title = f"{name}: difference from {comparison.pairs[0].base}"
            charts.append(_dots(title, dots, metric.unit))
    return charts


def _dots(title: str, dots: Sequence[Dot], unit: Unit) -> Chart:
    ends = [end for dot in dots if dot.interval for end in (dot.interval.low, dot.interval.high)]
    most = max(map(abs, [*ends, *(dot.value for dot in dots)]))
    name, scale = time_unit(most) if unit == "s" else ("", 1.0)
    chart = Chart(title, name, height=0.9 + ROW * len(dots))
    chart.axes.axvline(0.0, color=COLOURS["dim"], linewidth=1)
    for place, dot in enumerate(dots):
        if dot.interval is not None:
            span = dot.interval.low / scale, dot.interval.high / scale
            chart.axes.hlines(place, *span, color=COLOURS["c0"], linewidth=2)
        chart.axes.plot(dot.value / scale, place, "o", color=COLOURS["c0"])
        words = f"{readable(dot.value, unit)} {dot.remark}".strip()
        chart.axes.annotate(
            words, (dot.value / scale, place), (0, 5), textcoords="offset points",
            ha="center", color=COLOURS["dim"],
        )  # fmt: skip
    names = [dot.name if len(dot.name) <= 34 else "…" + dot.name[-33:] for dot in dots]
    chart.axes.set_yticks(range(len(dots)), names)
    chart.axes.set_ylim(len(dots) - 0.5, -0.8)
    return chart.finished()
