"""Settings side by side: a dot for each mean or difference, a bar for its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from farm.results.comparison.comparison import Comparison
from farm.results.comparison.metrics import Metric, Unit
from farm.results.comparison.statistics import Interval
from farm.results.comparison.sweep import Sweep
from farm.results.comparison.sweep_table import readable
from farm.results.figures.chart import BOTTOM, TOP, Axis, Chart, Frame, text, time_axis

LEFT = 230
ROW = 28


class Dot(NamedTuple):
    """A value with its interval, and what is said beside it."""

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
            charts.append(_dots(title, dots, metric.unit, zero=True))
    return charts


def _dots(title: str, dots: Sequence[Dot], unit: Unit, *, zero: bool = False) -> Chart:
    values = [dot.value for dot in dots]
    ends = [end for dot in dots if dot.interval for end in (dot.interval.low, dot.interval.high)]
    low, high = min([*values, *ends, 0.0]), max([*values, *ends, 0.0])
    if high == low:
        high = low + 1.0
    x = time_axis("", low, high) if unit == "s" else Axis("", low, high)
    height = TOP + BOTTOM + ROW * len(dots)
    frame = Frame(x, Axis("", 0, len(dots)), height, left=LEFT)
    parts = [axis for axis in frame.axes() if "middle" in axis]
    if zero:
        at = frame.x(0.0)
        parts.append(f'<path class="axis" d="M{at:.1f} {TOP}V{height - BOTTOM}"/>')
    for place, dot in enumerate(dots):
        y = frame.y(len(dots) - place - 0.5)
        name = dot.name if len(dot.name) <= 34 else "…" + dot.name[-33:]
        parts.append(text(LEFT - 8, y + 4, name, anchor="end"))
        if dot.interval is not None:
            left, right = frame.x(dot.interval.low), frame.x(dot.interval.high)
            parts.append(
                f'<path stroke="var(--c0)" stroke-width="2" d="M{left:.1f} {y:.1f}H{right:.1f}"/>'
            )
        at = frame.x(dot.value)
        parts.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4" fill="var(--c0)"/>')
        words = f"{readable(dot.value, unit)} {dot.remark}".strip()
        end = at > LEFT + 250
        parts.append(
            text(at + (-8 if end else 8), y - 5, words, anchor="end" if end else "start", dim=True)
        )
    return frame.chart(title, parts)
