"""The measured slowdown as a figure."""

from __future__ import annotations

from collections.abc import Sequence

from farm.results.figures.lines import Figure
from farm.scenario.calibration import Measurement


def calibration_figure(measurements: Sequence[Measurement], title: str) -> Figure:
    """Return a figure of the slowdown over the number of heavy jobs, with the repeats' spread."""
    base = measurements[0].median_s
    return Figure(
        title,
        {"median": [(one.heavy, one.slowdown) for one in measurements]},
        ("heavy jobs on the builder; bars: fastest to slowest repeat", "slowdown"),
        [(one.heavy, one.spread_s[0] / base, one.spread_s[1] / base) for one in measurements],
    )
