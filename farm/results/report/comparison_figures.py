"""Charts that compare settings: a dot for each mean or difference, a bar for its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from farm.results.comparison.compared_metrics import Metric, readable
from farm.results.comparison.comparison import Comparison
from farm.results.comparison.comparison_answer import Choice, frontier
from farm.results.comparison.comparison_tables import shares_of
from farm.results.comparison.significance import Interval, ends_of
from farm.results.comparison.sweep_judgement import Sweep
from farm.results.figures.chart import COLOURS, Chart, label, time_unit
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.results.money import Currency, unit_of_cost

ROW = 0.42
#: the width of a character of a name, about; points
CHARACTER = 5.5
#: what is not told from the base: its dot is a ring
ALIKE = ("same", "noise", "small", "not distinguishable")
#: left, bottom, right, top
Box = tuple[float, float, float, float]
#: about as large as the axes of wait against cost are
POINTS_OF_AXES = (250.0, 170.0)
#: where the name of a point may stand, right of it and above; beyond the four nearest, with a line
PLACES = ((7, 5), (7, -13), (-7, -13), (-7, 5), *((x, y) for y in (19, 33, 47) for x in (7, -7)))
FAR = 15
LEADER = {"arrowstyle": "-", "color": COLOURS["dim"], "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
#: an axis is one of logarithms if the highest value is more than this many times their median
OUTLIER = 4.0
#: share of the highest cost that the axis of cost spans at least: less is no difference to see
MIN_SPAN = 0.05
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


class _Axis(NamedTuple):
    """An axis of wait against cost: its ends, and whether it is one of logarithms."""

    low: float
    high: float
    is_log: bool

    def share(self, value: float) -> float:
        """Return where a value stands, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def trade_off_chart(choices: Sequence[Choice], currency: Currency = None) -> list[Chart]:
    """Return the picture of mean wait against cost, with the frontier; none for one setting.

    Points have their names where these fit, those of the base and of the frontier first; a page
    says the others under the pointer.
    """
    if len(choices) < 2:
        return []
    unit, scale = time_unit(max(choice.wait for choice in choices))
    costs = [choice.cost for choice in choices]
    waits = [choice.wait / scale for choice in choices]
    across, up = _cost_axis(costs), _wait_axis(waits)
    chart = Chart(
        "Mean wait against cost",
        f"cost ({unit_of_cost(currency)}{', log scale' * across.is_log})",
        f"mean wait ({unit}{', log scale' * up.is_log})",
        height=3.4,
    )
    best = set(frontier(choices))
    line = sorted((choice.cost, choice.wait / scale) for choice in choices if choice.name in best)
    chart.axes.plot(
        *zip(*line, strict=True),
        color=COLOURS["c1"],
        drawstyle="steps-post",
        label="frontier: none waits less and costs no more",
    )
    for choice in choices:
        [drawn] = chart.axes.plot(
            choice.cost,
            choice.wait / scale,
            "o",
            color=COLOURS["c1" if choice.name in best else "c0"],
        )
        numbers = f"mean wait {readable_span(choice.wait)}, cost {readable_ratio(choice.cost)}"
        drawn.set_gid(f"said:{choice.name}: {numbers}")
    first, *others = choices
    others.sort(key=lambda choice: (choice.name not in best, choice.wait))
    named = [(choice.name, choice.cost, choice.wait / scale) for choice in (first, *others)]
    _name_points(chart, named, across, up)
    for axis, name in ((across, "x"), (up, "y")):
        chart.axes.set(**{f"{name}lim": (axis.low, axis.high)})
        if axis.is_log:
            _log_ticks(chart, name, axis)
    return [chart.finished()]


def _has_outlier(values: Sequence[float]) -> bool:
    return min(values) > 0.0 and max(values) > OUTLIER * median(values)


def _cost_axis(costs: Sequence[float]) -> _Axis:
    low, high = min(costs), max(costs)
    if _has_outlier(costs):
        margin = (high / low) ** 0.08
        return _Axis(low / margin, high * margin, is_log=True)
    span = max(high - low, MIN_SPAN * high) or 1.0
    # what is beyond the costs is right of them, where names stand
    return _Axis(low - 0.08 * span, low + 1.08 * span, is_log=False)


def _wait_axis(waits: Sequence[float]) -> _Axis:
    if _has_outlier(waits):
        margin = (max(waits) / min(waits)) ** 0.1
        return _Axis(min(waits) / margin, max(waits) * margin, is_log=True)
    return _Axis(0.0, max(waits) * 1.15 or 1.0, is_log=False)


def _log_ticks(chart: Chart, name: str, axis: _Axis) -> None:
    """Give an axis of logarithms ticks at 1, 2 and 5 of each decade, or fewer if these are many."""
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    at = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    ticks = [tick for tick in at if axis.low <= tick <= axis.high]
    chart.axes.set(**{f"{name}scale": "log"})
    chart.axes.set(**{f"{name}ticks": ticks, f"{name}ticklabels": [f"{at:,g}" for at in ticks]})
    chart.axes.set(**{f"{name}lim": (axis.low, axis.high)})
    chart.axes.minorticks_off()


def _name_points(
    chart: Chart, points: Sequence[tuple[str, float, float]], across: _Axis, up: _Axis
) -> None:
    """Write names beside points where these fit, the first ones first."""
    wide, high = POINTS_OF_AXES
    places = [(across.share(cost) * wide, up.share(wait) * high) for _, cost, wait in points]
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    for (name, cost, wait), (x, y) in zip(points, places, strict=True):
        text = label(name, 34)
        length = CHARACTER * len(text)
        for right, above in PLACES:
            left = x + right - length * (right < 0)
            box = (left, y + above, left + length, y + above + 10)
            is_inside = box[0] > -10.0 and box[1] > 0.0 and box[2] < wide + 10.0 and box[3] < high
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                chart.axes.annotate(
                    text,
                    (cost, wait),
                    (right, above),
                    textcoords="offset points",
                    ha="left" if right > 0 else "right",
                    color=COLOURS["dim"],
                    arrowprops=LEADER if above > FAR else None,
                )
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
                dots.append(Dot(name, row.mean, *ends_of(row.interval), row.verdict or ""))
        if dots:
            charts.append(_dots(metric, dots, sweep.currency))
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
        _dot(chart, place, dot, 1.0, readable_percent(dot.value, signed=True), beyond=1.0)
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


def _dots(metric: Metric, dots: Sequence[Dot], currency: Currency) -> Chart:
    """Draw means with their intervals."""
    most = max(max(abs(end) for end in dot[1:4] if end is not None) for dot in dots)
    name, scale = time_unit(most) if metric.unit == "s" else ("", 1.0)
    name, scale = ("%", 0.01) if metric.unit == "share" else (name, scale)
    name = unit_of_cost(currency) if metric.name == "cost" else name
    chart = Chart(metric.name.replace("_", " "), name, height=0.9 + ROW * len(dots))
    for place, dot in enumerate(dots):
        _dot(chart, place, dot, scale, readable(dot.value, metric.unit))
    chart.axes.set_xlim(left=min(0.0, chart.axes.dataLim.x0))
    return _listed(chart, dots, 0.0)


def _dot(
    chart: Chart, place: int, dot: Dot, scale: float, number: str, beyond: float = 0.0
) -> None:
    """Draw a value with its interval; above it stand its name and the number.

    A ring is a value that is not told from the base; a page says the verdict under the pointer.
    """
    axes, value = chart.axes, beyond + dot.value / scale
    if dot.low is not None and dot.high is not None:
        low, high = beyond + dot.low / scale, beyond + dot.high / scale
        axes.hlines(place, max(0.0, low), high, color=COLOURS["c0"], linewidth=2)
    inside = COLOURS["page" if dot.remark in ALIKE else "c0"]
    [drawn] = axes.plot(value, place, "o", color=COLOURS["c0"], markerfacecolor=inside)
    drawn.set_gid(f"said:{dot.name}: {number} {dot.remark}".rstrip())
    name = dot.name if len(dot.name) <= 34 else "…" + dot.name[-33:]
    for text, edge, side in ((name, 0.0, "left"), (number, 1.0, "right")):
        axes.annotate(
            text,
            (edge, place),
            (4 - 8 * edge, 9),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            va="center",
            ha=side,
            annotation_clip=False,
            gid="over",
        )


def _listed(chart: Chart, dots: Sequence[Dot], origin: float) -> Chart:
    """Return the chart with the first row on top."""
    chart.axes.axvline(origin, color=COLOURS["dim"], linewidth=1, zorder=1)
    chart.axes.set_yticks([])
    chart.axes.spines["left"].set_visible(False)
    chart.axes.set_ylim(len(dots) - 0.6, -0.7)
    return chart.finished()
