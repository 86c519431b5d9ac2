"""The figures of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from farm.columns import Floats, known
from farm.core.errors import InputError, not_among
from farm.results.figures.chart import COLOURS, HATCHES, WIDTH, Chart, colour, label, time_unit
from farm.results.figures.time_axis import WallClock
from farm.results.formatting import readable_percent, readable_span
from farm.results.report.over_time import (
    ChartLane,
    JobsOverTime,
    PoolsOverTime,
    busy_shares,
    lanes,
    reusing,
)
from farm.results.summary.summary import Summary
from farm.results.table.job_table import JobTable
from farm.units import format_time

MOST_LINES = 6
MOST_LANES = 60
MOST_COLUMNS = 100
"""Intervals of a row of the heat map of pools."""
MAX_SHARE_OF_ROWS = 0.5
"""Rows are used again by other builders if that leaves at most this share of them."""
MOST_BLOCKS = 2000
"""More jobs than this are drawn as shares of short intervals, not one by one."""
NO_TIME = 0.1
"""Where spans of no time, or of less than this, stand on an axis of logarithms; seconds."""
CHARACTER = 5.2
"""The width of a character of a chart's text, about; points."""
SPANS = (1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 86400.0, 864000.0)


class RunFigures:
    """The figures of a run by name, drawn on demand.

    ``log_lines`` yields its event log, or is None if no events were kept; ``clock``: the farm's.
    """

    def __init__(
        self,
        summary: Summary,
        jobs: JobTable,
        log_lines: Iterable[bytes] | None,
        clock: WallClock | None = None,
    ) -> None:
        self._summary = summary
        self._table, self._jobs = jobs, JobsOverTime(jobs)
        self._log_lines, self._clock = log_lines, clock
        self._drawn: dict[str, Callable[[], list[Chart]]] = {
            "queue": self._queue,
            "builders": self._builders,
            "utilization": self._utilization,
            "distribution": self._distribution,
            "slots": self._slots,
            "invocations": self._invocations,
            "estimates": self._estimates,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures."""
        return tuple(self._drawn)

    def draw(self, name: str) -> list[Chart]:
        """Return the charts of this name; empty if the run has no data for them."""
        if name not in self._drawn:
            raise InputError(f"figure: {not_among(name, self._drawn)}")
        return self._drawn[name]() if len(self._table) else []

    @cached_property
    def _pools(self) -> PoolsOverTime | None:
        return None if self._log_lines is None else PoolsOverTime(self._log_lines)

    def _over_time(self, title: str, height: float = 2.7, *, rows: bool = False) -> Chart:
        chart, grid = Chart(title, height=height), self._jobs.grid
        chart.over_time(float(grid[0]), float(grid[-1]), self._clock, rows=rows)
        return chart

    def _queue(self) -> list[Chart]:
        jobs, middles = self._jobs, _middles(self._jobs.grid)
        platform = self._table["platform"]
        names, counts = np.unique(platform, return_counts=True)
        most = names[np.argsort(-counts, kind="stable")][:MOST_LINES].tolist()
        chosen = {name: platform == name for name in most}
        if len(names) > len(most):
            chosen["others"] = ~np.isin(platform, most)
        return [
            self._counts(title, {n: (middles, of(places)) for n, places in chosen.items()})
            for title, of in (("Waiting jobs", jobs.waiting_at), ("Running jobs", jobs.running_at))
        ]

    def _counts(
        self, title: str, lines: dict[str, tuple[Floats, Floats]], *, looks: bool = False
    ) -> Chart:
        """Draw numbers over time; ``looks``: the lines are states of builders."""
        chart = self._over_time(title)
        for name, (times, values) in lines.items():
            chart.line(name, times, values, look=name if looks else "")
        chart.axes.set_ylim(0, max(1.0, chart.axes.get_ylim()[1]))
        chart.axes.locator_params("y", integer=True)
        return chart.finished()

    def _builders(self) -> list[Chart]:
        if (pools := self._pools) is None:
            return []
        grid = self._jobs.grid
        charts = []
        for pool in pools.names[:MOST_LINES]:
            lines = {"present": (_middles(grid), pools.there(pool, grid))}
            if (booting := pools.booting(pool, grid)).any():
                lines["booting"] = (_middles(grid), booting)
            desired = pools.desired(pool, grid)
            if (known := ~np.isnan(desired)).any():
                lines["desired"] = (grid[1:][known], desired[known])
            charts.append(self._counts(f"Builders of {pool}", lines, looks=True))
        return charts

    def _utilization(self) -> list[Chart]:
        """Draw the share of each pool's slots that were busy, a row each; of one pool nothing."""
        if self._pools is None or len(self._pools.names) < 2:
            return []
        grid = self._jobs.grid
        grid = grid[:: len(grid) // MOST_COLUMNS]
        names = self._pools.names[:MOST_LANES]
        rows = {name: self._pools.busy(name, self._jobs, grid) for name in names}
        title = "Share of each pool's slots that were busy (full colour: all)"
        chart = self._over_time(title, 1.0 + 0.24 * len(rows), rows=True)
        chart.heat(rows, grid)
        return [chart.finished()]

    def _distribution(self) -> list[Chart]:
        chart = Chart("Distribution of waiting and response times", y="% of the jobs")
        longest = 1.0
        for name in ("waiting", "response"):
            values = known(self._table.counted(f"{name}_time_s"))
            if len(values):
                shares = np.linspace(0.0, 1.0, min(len(values), 300))
                points = np.quantile(values, shares, method="inverted_cdf")
                chart.line(name, np.maximum(points, NO_TIME), shares * 100, look=name)
                longest = max(longest, float(points[-1]))
        ticks = [span for span in SPANS if span <= longest]
        chart.axes.set_xscale("log")
        chart.axes.set_xticks([NO_TIME, *ticks], ["0", *map(format_time, ticks)])
        chart.axes.set_xticks([], minor=True)
        chart.axes.set_xlim(NO_TIME / 1.2, longest * 1.1)
        chart.spans()
        chart.units(y=" %")
        return [chart.finished()] if chart.axes.lines else []

    def _slots(self) -> list[Chart]:
        """Draw a Gantt chart of the slots."""
        found = lanes(self._jobs)
        if not found:
            return []
        rows_again = reusing(self._jobs, found)
        is_again = len(rows_again) <= MAX_SHARE_OF_ROWS * len(found)
        if is_again:
            found = rows_again
        per_row = -(-len(found) // MOST_LANES)
        rows = [found[place : place + per_row] for place in range(0, len(found), per_row)]
        few = per_row == 1 and len(self._table) <= MOST_BLOCKS
        title = "What ran on each slot" if few else "Share of time that slots were busy"
        remarks = [f"{per_row} slots a row"] if per_row > 1 else []
        remarks += ["rows are used again after a builder's last job"] if is_again else []
        if remarks:
            title += f" ({'; '.join(remarks)})"
        chart = self._over_time(title, 1.4 + 0.13 * max(4, len(rows)), rows=True)
        (self._blocks if few else self._shading)(chart, rows)
        shown = range(0, len(rows), 1 + len(rows) // 40)
        more = " …" if is_again else ""
        names = [label(rows[place][0].name, 18) + more for place in shown]
        chart.axes.set_yticks(shown, names)
        chart.axes.set_ylim(len(rows) - 0.5, -0.5)
        return [chart.finished()]

    def _blocks(self, chart: Chart, rows: list[list[ChartLane]]) -> None:
        """Draw each job as a block; a page shows its name under the pointer."""
        chart.axes.grid(visible=False)
        jobs = self._jobs
        ids, platforms, builders = map(self._table.__getitem__, ("job_id", "platform", "builder"))
        for number, platform in enumerate(np.unique(platforms)):
            every = ((row, job) for row, (lane,) in enumerate(rows) for job in lane.jobs)
            chosen = [(row, job) for row, job in every if platforms[job] == platform]
            if not chosen:
                continue
            lines, places = map(list, zip(*chosen, strict=True))
            starts, spans = jobs.started[places], (jobs.stopped - jobs.started)[places]
            bars = chart.axes.barh(
                lines,
                spans,
                left=starts,
                height=0.85,
                color=colour(number),
                edgecolor=COLOURS["grid"],
                linewidth=0.2,
                hatch=HATCHES[number % len(HATCHES)],
                label=label(str(platform)),
            )
            for bar, job, span in zip(bars, places, spans.tolist(), strict=True):
                where = f"{platform}, on {builders[job]}"
                bar.set_gid(f"said:{ids[job]} ({where}), {readable_span(span)}")

    def _shading(self, chart: Chart, rows: list[list[ChartLane]]) -> None:
        """Draw each row as an image of intervals, darker when busier, for any number of jobs."""
        grid = self._jobs.grid
        chart.heat({row[0].name: busy_shares(self._jobs, row, grid) for row in rows}, grid)

    def _invocations(self) -> list[Chart]:
        parts = self._summary.invocations
        total = sum(part.cost for part in parts.values())
        most = sorted(parts, key=lambda name: -parts[name].cost)[:30]
        if not most or total <= 0:
            return []
        shares = [100 * parts[name].cost / total for name in most]
        scale = "share of what all builders in use cost (%)"
        chart = Chart("Shares by invocation", scale, height=0.9 + 0.24 * len(most))
        chart.axes.grid(visible=False)
        chart.axes.barh(range(len(most)), shares, color=COLOURS["c0"], alpha=0.45)
        names = [label(name, 22) for name in most]
        longest = max(shares)
        # points: what the names leave of the width
        width = 72 * WIDTH - CHARACTER * max(map(len, names)) - 20.0
        chart.axes.set_xlim(0.0, longest * 1.05)
        for place, (name, share) in enumerate(zip(most, shares, strict=True)):
            wait = readable_span(parts[name].waiting_time.mean)
            text = f"{readable_percent(share / 100)}, mean wait {wait}"
            is_inside = CHARACTER * len(text) + 8.0 < share / (longest * 1.05) * width
            chart.axes.annotate(
                text,
                (0.0 if is_inside else share, place),
                (4, 0),
                textcoords="offset points",
                va="center",
            )
        chart.axes.set_yticks(range(len(names)), names)
        chart.axes.invert_yaxis()
        return [chart.finished()]

    def _estimates(self) -> list[Chart]:
        """Draw the estimates at submission against the outcome: median and middle 80 %."""
        arrived = self._jobs.arrived
        estimated = np.maximum(0.0, self._table["estimated_dispatch_at_s"] - arrived)
        came = np.maximum(0.0, self._table["dispatched_at_s"] - arrived)
        both = ~np.isnan(estimated + came)
        if both.sum() < 2:
            return []
        estimated, came = estimated[both], came[both]
        order = np.argsort(estimated, kind="stable")
        groups = [g for g in np.array_split(order, min(20, len(order) // 2)) if len(g)]
        middle = [float(np.median(estimated[group])) for group in groups]
        low, median, high = (
            [float(np.quantile(came[group], level)) for group in groups]
            for level in (0.1, 0.5, 0.9)
        )
        top = max(1.0, *high, *middle)
        unit, seconds = time_unit(top)
        close = float(np.mean(np.abs(estimated - came) <= np.maximum(60.0, 0.2 * came)))
        title = f"Waits: {readable_percent(close)} of the estimates within a fifth or a minute"
        chart = Chart(title, f"estimated ({unit})", f"came ({unit})", height=3.4)
        chart.units(f" {unit} estimated", f" {unit}")
        ideal = [0.0, max(1.0, *middle) / seconds]
        chart.line("exactly right", ideal, ideal)
        for name, values in (("median", median), ("10 %", low), ("90 %", high)):
            chart.line(name, np.array(middle) / seconds, np.array(values) / seconds)
        return [chart.finished()]


def _middles(grid: Floats) -> Floats:
    return np.asarray((grid[1:] + grid[:-1]) / 2, dtype=np.float64)
