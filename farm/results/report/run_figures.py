"""The figures of one run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import cached_property
from html import escape

import numpy as np

from farm.core.errors import InputError, did_you_mean
from farm.results.figures.chart import (
    BOTTOM,
    TOP,
    Axis,
    Chart,
    Floats,
    Frame,
    Line,
    chart,
    text,
    time_axis,
)
from farm.results.formatting import readable_percent, readable_span
from farm.results.jobs_table import JobRow
from farm.results.report.series import Builders, Jobs, Lane, busy_shares, lanes
from farm.results.summary.summary import Summary
from farm.units import format_duration

MOST_LINES = 6
MOST_LANES = 60
MOST_BLOCKS = 2000
"""More jobs than this are drawn as shares of short intervals, not one by one."""
SHADES = 5
SPANS = (1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 86400.0, 864000.0)


class RunFigures:
    """The figures of a run by name; each is drawn when it is asked for.

    ``log_lines`` yields its event log, or None where no events were kept.
    """

    def __init__(
        self, summary: Summary, rows: Iterable[JobRow], log_lines: Iterable[bytes] | None
    ) -> None:
        self._summary = summary
        self._rows = list(rows)
        self._log_lines = log_lines
        self._drawn: dict[str, Callable[[], list[Chart]]] = {
            "queue": self._queue,
            "builders": self._builders,
            "distribution": self._distribution,
            "slots": self._slots,
            "invocations": self._invocations,
            "estimates": self._estimates,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """What there is to draw."""
        return tuple(self._drawn)

    def draw(self, name: str) -> list[Chart]:
        """Return the charts of this name: none where the run has nothing to show in them."""
        if name not in self._drawn:
            hint = did_you_mean(name, self._drawn)
            raise InputError(f"plot: found {name!r}; {hint}allowed: {', '.join(self._drawn)}")
        return self._drawn[name]() if self._rows else []

    @cached_property
    def _jobs(self) -> Jobs:
        return Jobs(self._rows)

    @property
    def _time(self) -> Axis:
        return time_axis("farm time", self._jobs.grid[0], self._jobs.grid[-1])

    def _queue(self) -> list[Chart]:
        jobs, middles = self._jobs, _middles(self._jobs.grid)
        names, counts = np.unique(jobs.platform, return_counts=True)
        most = names[np.argsort(-counts, kind="stable")][:MOST_LINES].tolist()
        chosen = {name: jobs.platform == name for name in most}
        if len(names) > len(most):
            chosen["others"] = ~np.isin(jobs.platform, most)
        return [
            self._counts(title, [Line(n, middles, of(places)) for n, places in chosen.items()])
            for title, of in (("Waiting jobs", jobs.waiting_at), ("Running jobs", jobs.running_at))
        ]

    def _counts(self, title: str, lines: list[Line]) -> Chart:
        top = max(1.0, *(float(np.nanmax(line.ys)) for line in lines))
        return chart(title, self._time, Axis("", 0, top), lines)

    def _builders(self) -> list[Chart]:
        if self._log_lines is None:
            return []
        builders, grid = Builders(self._log_lines), self._jobs.grid
        charts = []
        for pool in builders.pools[:MOST_LINES]:
            lines = [Line("there", _middles(grid), builders.there(pool, grid))]
            if (booting := builders.booting(pool, grid)).any():
                lines.append(Line("booting", _middles(grid), booting))
            if pool in builders.plans:
                desired = builders.desired(pool, grid)
                known = ~np.isnan(desired)
                if known.any():
                    lines.append(Line("desired", grid[1:][known], desired[known]))
            charts.append(self._counts(f"Builders of {pool}", lines))
        return charts

    def _distribution(self) -> list[Chart]:
        lines = []
        for name, values in (("waiting", self._jobs.waiting), ("response", self._jobs.response)):
            sorted_values = np.sort(values[~np.isnan(values)])
            if len(sorted_values):
                shares = np.linspace(0.0, 1.0, min(len(sorted_values), 300))
                points = np.quantile(sorted_values, shares, method="inverted_cdf")
                lines.append(Line(name, np.maximum(points, 0.1), shares * 100))
        if not lines:
            return []
        high = max(1.0, *(float(line.xs[-1]) for line in lines))
        x = Axis("at most so long", 0.1, high, format_duration, log=True, round_values=SPANS)
        return [chart("Share of jobs (%) that took at most so long", x, Axis("", 0, 100), lines)]

    def _slots(self) -> list[Chart]:
        found = lanes(self._jobs)
        if not found:
            return []
        per_row = -(-len(found) // MOST_LANES)
        rows = [found[place : place + per_row] for place in range(0, len(found), per_row)]
        height = TOP + BOTTOM + max(60, min(12, 720 // len(rows)) * len(rows))
        frame = Frame(self._time, Axis("", 0, len(rows)), height, left=110)
        few = per_row == 1 and len(self._rows) <= MOST_BLOCKS
        body = self._blocks(frame, rows) if few else self._shading(frame, rows)
        title = "What ran on each slot" if few else "Share of time that slots were busy"
        if per_row > 1:
            title += f" ({per_row} slots a line)"
        every = -(-len(rows) // max(1, (height - TOP - BOTTOM) // 12))
        names = [
            text(104, frame.y(len(rows) - place - 0.5) + 4, _short(row[0].name), anchor="end")
            for place, row in enumerate(rows)
            if place % every == 0
        ]
        scale = [axis for axis in frame.axes() if 'class="axis"' in axis or "middle" in axis]
        return [frame.chart(title, [*scale, *body, *names])]

    def _blocks(self, frame: Frame, rows: list[list[Lane]]) -> list[str]:
        """Draw each job as a block; its name shows where a pointer rests."""
        platforms = {str(name): n for n, name in enumerate(np.unique(self._jobs.platform))}
        jobs, parts = self._jobs, []
        thick = max(1.0, frame.y(0) - frame.y(1) - 1)
        for place, (lane,) in enumerate(rows):
            top = frame.y(len(rows) - place)
            for job in lane.jobs:
                end = jobs.end if np.isnan(jobs.finished[job]) else jobs.finished[job]
                left = frame.x(float(jobs.started[job]))
                platform = str(jobs.platform[job])
                parts.append(
                    f'<rect x="{left:.1f}" y="{top:.1f}" height="{thick:.1f}" '
                    f'width="{max(0.5, frame.x(float(end)) - left - 0.3):.1f}" '
                    f'fill="var(--c{platforms[platform] % 6})"><title>{escape(jobs.ids[job])} '
                    f"({escape(platform)}), {readable_span(float(end - jobs.started[job]))}"
                    "</title></rect>"
                )
        return [*parts, *frame.legend(list(platforms)[:3])]

    def _shading(self, frame: Frame, rows: list[list[Lane]]) -> list[str]:
        """Draw each row as intervals, the darker the busier: five paths, however many jobs."""
        grid = self._jobs.grid
        paths: list[list[str]] = [[] for _ in range(SHADES)]
        thick = max(1.0, frame.y(0) - frame.y(1) - 1)
        for place, row in enumerate(rows):
            shades = np.ceil(busy_shares(self._jobs, row, grid) * SHADES - 1e-9).astype(int)
            middle = frame.y(len(rows) - place) + thick / 2
            changes = [0, *(np.flatnonzero(np.diff(shades)) + 1).tolist(), len(shades)]
            for first, last in itertools.pairwise(changes):
                if shade := min(SHADES, int(shades[first])):
                    left, right = frame.x(float(grid[first])), frame.x(float(grid[last]))
                    paths[shade - 1].append(f"M{left:.1f} {middle:.1f}H{right:.1f}")
        return [
            f'<path fill="none" stroke="var(--c0)" stroke-width="{thick:.1f}" '
            f'stroke-opacity="{(number + 1) / SHADES:.1f}" d="{"".join(path)}"/>'
            for number, path in enumerate(paths)
            if path
        ]

    def _invocations(self) -> list[Chart]:
        parts = self._summary.invocations
        total = sum(part.cost for part in parts.values())
        most = sorted(parts, key=lambda name: -parts[name].cost)[:30]
        if not most or total <= 0:
            return []
        height = TOP + BOTTOM + 20 * len(most)
        shares = [100 * parts[name].cost / total for name in most]
        x = Axis("share of what all builders in use cost (%)", 0, max(shares))
        frame = Frame(x, Axis("", 0, len(most)), height, left=150)
        body = []
        for place, (name, share) in enumerate(zip(most, shares, strict=True)):
            top = frame.y(len(most) - place)
            wait = readable_span(parts[name].waiting_time.mean)
            body += [
                text(144, top + 14, _short(name, 22), anchor="end"),
                (
                    f'<rect x="150" y="{top + 2:.1f}" height="16" '
                    f'width="{frame.x(share) - 150:.1f}" '
                    'fill="var(--c0)" fill-opacity=".35"/>'
                ),
                text(156, top + 14, f"{readable_percent(share / 100)}, mean wait {wait}"),
            ]
        scale = [axis for axis in frame.axes() if "middle" in axis]
        return [frame.chart("Shares by invocation", [*scale, *body])]

    def _estimates(self) -> list[Chart]:
        """Draw what was estimated at submission against what came: median and middle 80 %."""
        jobs = self._jobs
        known = ~np.isnan(jobs.estimated) & ~np.isnan(jobs.dispatched)
        if known.sum() < 2:
            return []
        said = np.maximum(0.0, jobs.estimated[known] - jobs.arrived[known])
        came = np.maximum(0.0, jobs.dispatched[known] - jobs.arrived[known])
        order = np.argsort(said, kind="stable")
        groups = [g for g in np.array_split(order, min(20, len(order) // 2)) if len(g)]
        middle = [float(np.median(said[group])) for group in groups]
        low, median, high = (
            [float(np.quantile(came[group], level)) for group in groups]
            for level in (0.1, 0.5, 0.9)
        )
        top = max(1.0, *high, *middle)
        x, y = time_axis("estimated wait", 0.0, max(1.0, *middle)), time_axis("", 0.0, top)
        ideal = min(x.high, top)
        lines = [
            Line("exactly right", [0.0, ideal], [0.0, ideal]),
            Line("median", middle, median),
            Line("10 %", middle, low),
            Line("90 %", middle, high),
        ]
        close = float(np.mean(np.abs(said - came) <= np.maximum(60.0, 0.2 * came)))
        title = (
            f"Wait that came {y.name.strip()}, by wait estimated: {readable_percent(close)} of the "
            "estimates within a fifth or a minute"
        )
        return [chart(title, x, y._replace(name=""), lines)]


def _middles(grid: Floats) -> Floats:
    return np.asarray((grid[1:] + grid[:-1]) / 2, dtype=np.float64)


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
