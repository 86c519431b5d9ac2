"""Charts that compare settings: a dot for each mean or difference, a bar for its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from farm.results.comparison.comparison import Comparison
from farm.results.comparison.metrics import Metric, Unit
from farm.results.comparison.significance import Interval
from farm.results.comparison.sweep import Sweep
from farm.results.comparison.tables import readable
from farm.results.figures.chart import COLOURS, Chart, time_unit

ROW = 0.34


class Dot(NamedTuple):
    """A value with its interval and its label."""

    name: str
    value: float
    interval: Interval | None
    remark: str


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
