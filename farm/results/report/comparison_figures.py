"""Charts that compare settings: a dot for each mean or difference, a bar for its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from farm.results.comparison.answer import Choice, frontier
from farm.results.comparison.comparison import Comparison
from farm.results.comparison.metrics import Metric, readable
from farm.results.comparison.significance import Interval, ends_of
from farm.results.comparison.sweep import Sweep
from farm.results.comparison.tables import shares_of
from farm.results.figures.chart import COLOURS, Chart, label, time_unit
from farm.results.formatting import readable_percent, readable_ratio, readable_span

ROW = 0.42
#: left, bottom, right, top
Box = tuple[float, float, float, float]
#: about as large as the axes of wait against cost are
POINTS_OF_AXES = (250.0, 170.0)
COST_UNIT = "builder-hours, each at its pool's price"
#: where the name of a point may stand, right of it and above; beyond the four nearest, with a line,
#: only that of the shortest wait, of which the answer speaks
PLACES = ((7, 5), (7, -13), (-7, -13), (-7, 5), *((x, y) for y in (19, 33, 47) for x in (7, -7)))
FAR = 15
LEADER = {"arrowstyle": "-", "color": COLOURS["dim"], "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
#: by the greatest ratio on an axis, the shares at its ticks
TICKS: Sequence[tuple[float, Sequence[float]]] = (
    (1.4, (-0.2, -0.1, 0.0, 0.1, 0.2)),
    (2.0, (-0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8)),
    (4.0, (-0.75, -0.5, -0.25, 0.0, 0.5, 1.0, 2.0)),
    (30.0, (-0.95, -0.9, -0.75, -0.5, 0.0, 1.0, 3.0, 9.0, 19.0)),
    (math.inf, (-0.999, -0.99, -0.9, 0.0, 9.0, 99.0, 999.0, 9999.0)),
)


class Dot(NamedTuple):
    """A value with its interval and its label."""

    name: str
    value: float
    low: float | None
    high: float | None
    remark: str


def trade_off_chart(choices: Sequence[Choice]) -> list[Chart]:
    """Return the picture of mean wait against cost, with the frontier; none for one setting.

    Only the base and the settings on the frontier have their names.
    """
    if len(choices) < 2:
        return []
    unit, scale = time_unit(max(one.wait for one in choices))
    chart = Chart(
        "Mean wait against cost", f"cost ({COST_UNIT})", f"mean wait ({unit})", height=3.4
    )
    best = set(frontier(choices))
    line = sorted((one.cost, one.wait / scale) for one in choices if one.name in best)
    chart.axes.plot(
        *zip(*line, strict=True), color=COLOURS["c1"], drawstyle="steps-post",
        label="frontier: none waits less and costs no more",
    )  # fmt: skip
    for one in choices:
        [drawn] = chart.axes.plot(
            one.cost, one.wait / scale, "o", color=COLOURS["c1" if one.name in best else "c0"]
        )
        numbers = f"mean wait {readable_span(one.wait)}, cost {readable_ratio(one.cost)}"
        drawn.set_gid(f"said:{one.name}: {numbers}")
    top = max(one.wait for one in choices) / scale * 1.15 or 1.0
    named = [choices[0], *(one for one in choices[1:] if one.name in best)]
    named[1:] = sorted(named[1:], key=lambda one: one.wait)
    dots = [(one.cost, one.wait / scale) for one in choices]
    _name_points(chart, [(one.name, one.cost, one.wait / scale) for one in named], dots, top)
    chart.axes.set_ylim(0.0, top)
    chart.axes.margins(x=0.08)
    return [chart.finished()]


def _name_points(
    chart: Chart,
    points: Sequence[tuple[str, float, float]],
    dots: Sequence[tuple[float, float]],
    top: float,
) -> None:
    """Write names beside points where these fit; a name without room is said by the page alone."""
    costs = [cost for cost, _ in dots]
    wide, high = POINTS_OF_AXES
    across = wide / ((max(costs) - min(costs)) * 1.16 or 1.0)
    beside = 30 if max(costs) > min(costs) else wide / 2
    places = [(at * across, up / top * high) for at, up in dots]
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    for number, (name, at, up) in enumerate(points):
        text = label(name, 34)
        x, y, length = at * across, up / top * high, 5.5 * len(text)
        for right, above in PLACES if number == 1 else PLACES[:4]:
            left = x + right - length * (right < 0)
            box = (left, y + above, left + length, y + above + 10)
            inside = min(costs) * across - beside < left and box[2] < max(costs) * across + beside
            inside = inside and box[1] > 0 and box[3] < high
            if inside and not any(_overlap(box, one) for one in taken):
                taken.append(box)
                chart.axes.annotate(
                    text, (at, up), (right, above), textcoords="offset points",
                    ha="left" if right > 0 else "right", color=COLOURS["dim"],
                    arrowprops=LEADER if above > FAR else None,
                )  # fmt: skip
                break


def _overlap(one: Box, other: Box) -> bool:
    apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
    return not apart


def sweep_charts(sweep: Sweep, metrics: Sequence[Metric]) -> list[Chart]:
    """Return for each metric the mean of every setting."""
    charts = []
    for metric in metrics:
        dots = []
        for row in sweep.rows:
            if row.metric == metric.name and row.mean is not None:
                name = ", ".join(row.settings.values()) or sweep.scenario
                base = "baseline" if row.baseline is None and sweep.axes else ""
                dots.append(Dot(name, row.mean, *ends_of(row.interval), row.verdict or base))
        if dots:
            charts.append(_dots(metric, dots))
    return charts


def comparison_charts(comparison: Comparison, metrics: Sequence[Metric]) -> list[Chart]:
    """Return the differences from the base: of one run on one chart, else a chart for each metric.

    A metric that is 0 in the base, or in a run, has no ratio and is left out.
    """
    base, pairs = comparison.pairs[0].base_name, comparison.pairs
    rows = {
        metric.name.replace("_", " "): [
            Dot(pair.other_name, *shares, found.verdict or "")
            for pair in pairs
            for found in pair.metrics
            if found.metric == metric.name
            and (shares := _shares(found.difference, found.relative, found.interval))
        ]
        for metric in metrics
    }
    if len(pairs) > 1:
        named = ((f"{name}: difference from {base}", dots) for name, dots in rows.items())
        return [_ratios(title, dots) for title, dots in named if dots]
    dots = [dot._replace(name=name) for name, found in rows.items() for dot in found]
    return [_ratios(f"{pairs[0].other_name}: difference from {base}", dots)] if dots else []


def _shares(
    difference: float | None, relative: float | None, interval: Interval | None
) -> tuple[float, float | None, float | None] | None:
    if difference == 0:
        return 0.0, None, None
    shares = shares_of(difference, relative, interval)
    return None if shares is None else (shares[0] or 0.0, shares[1], shares[2])


def _ratios(title: str, dots: Sequence[Dot]) -> Chart:
    """Draw shares of the base on a log scale: half of it is as far from 0 % as twice it."""
    chart = Chart(title, height=0.8 + ROW * len(dots))
    for place, dot in enumerate(dots):
        words = f"{readable_percent(dot.value, signed=True)} {dot.remark}"
        _dot(chart, place, dot, 1.0, "same" if dot.remark == "same" else words, beyond=1.0)
    ends = [1 + end for dot in dots for end in (dot.low, dot.value, dot.high) if end is not None]
    low, high = min(0.88, *ends), max(1.13, *ends)
    margin = (high / low) ** 0.05
    low, high = low / margin, high * margin
    steps = next(steps for most, steps in TICKS if high / low <= most)
    chart.axes.set_xscale("log")
    chart.axes.set_xlim(low, high)
    ticks = [1 + share for share in steps if low <= 1 + share <= high]
    chart.axes.set_xticks(
        ticks, [f"{100 * (at - 1):+,.0f} %" if at != 1 else "0 %" for at in ticks]
    )
    chart.axes.set_xticks([], minor=True)
    return _listed(chart, dots, 1.0)


def _dots(metric: Metric, dots: Sequence[Dot]) -> Chart:
    """Draw means with their intervals."""
    most = max(max(abs(end) for end in dot[1:4] if end is not None) for dot in dots)
    name, scale = time_unit(most) if metric.unit == "s" else ("", 1.0)
    name, scale = ("%", 0.01) if metric.unit == "share" else (name, scale)
    name = COST_UNIT if metric.name == "cost" else name
    chart = Chart(metric.name.replace("_", " "), name, height=0.9 + ROW * len(dots))
    for place, dot in enumerate(dots):
        words = f"{readable(dot.value, metric.unit)} {dot.remark}"
        _dot(chart, place, dot, scale, words)
    chart.axes.set_xlim(left=min(0.0, chart.axes.dataLim.x0))
    return _listed(chart, dots, 0.0)


def _dot(chart: Chart, place: int, dot: Dot, scale: float, words: str, beyond: float = 0.0) -> None:
    """Draw a value with its interval; above it stand its name and its label."""
    axes, value = chart.axes, beyond + dot.value / scale
    if dot.low is not None and dot.high is not None:
        low, high = beyond + dot.low / scale, beyond + dot.high / scale
        axes.hlines(place, max(0.0, low), high, color=COLOURS["c0"], linewidth=2)
    [drawn] = axes.plot(value, place, "o", color=COLOURS["c0"])
    words = words.strip()
    drawn.set_gid(f"said:{dot.name}: {words}")
    name = dot.name if len(dot.name) <= 34 else "…" + dot.name[-33:]
    for text, edge, side in ((name, 0.0, "left"), (words, 1.0, "right")):
        axes.annotate(
            text, (edge, place), (4 - 8 * edge, 9), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", va="center", ha=side, annotation_clip=False, gid="over",
        )  # fmt: skip


def _listed(chart: Chart, dots: Sequence[Dot], origin: float) -> Chart:
    """Return the chart with the first row on top."""
    chart.axes.axvline(origin, color=COLOURS["dim"], linewidth=1, zorder=1)
    chart.axes.set_yticks([])
    chart.axes.spines["left"].set_visible(False)
    chart.axes.set_ylim(len(dots) - 0.6, -0.7)
    return chart.finished()
