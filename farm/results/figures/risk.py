"""Figure 4.1: the expected slowdown over the number of slots, one line per heavy fraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.results.figures.lines import Figure

#: of a plot in text
ROWS = 14


def risk_figure(lines: Mapping[float, Sequence[float]]) -> Figure:
    """Return the figure of f(n, p): for each p a line over the number n of slots."""
    return Figure(
        "Expected slowdown of a builder filled at random",
        {f"p = {p:g}": list(enumerate(values, 1)) for p, values in lines.items()},
        ("slots per builder (n)", "slowdown"),
    )
