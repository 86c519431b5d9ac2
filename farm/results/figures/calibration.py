"""The measured slowdown, as a figure and as text."""

from __future__ import annotations

from collections.abc import Sequence

from farm.results.figures.lines import Figure
from farm.scenario.calibration import Measurement

WIDEST_BAR = 40


def calibration_figure(measurements: Sequence[Measurement], title: str) -> Figure:
    """Return a figure of the slowdown over the number of heavy jobs, with the repeats' spread."""
    base = measurements[0].median_s
    return Figure(
        title,
        {"median": [(one.heavy, one.slowdown) for one in measurements]},
        ("heavy jobs on the builder; bars: fastest to slowest repeat", "slowdown"),
        [(one.heavy, one.spread_s[0] / base, one.spread_s[1] / base) for one in measurements],
    )


def text_plot(measurements: Sequence[Measurement]) -> str:
    """Draw a bar for each number of heavy jobs."""
    most = max(one.slowdown for one in measurements)
    lengths = [max(1, round(one.slowdown / most * WIDEST_BAR)) for one in measurements]
    bars = [
        f"{one.heavy:5d} |{'#' * length} {one.slowdown:.2f}"
        for one, length in zip(measurements, lengths, strict=True)
    ]
    return "\n".join(["heavy  slowdown of the reference job", *bars])
