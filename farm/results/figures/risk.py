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


def text_plot(lines: Mapping[float, Sequence[float]]) -> str:
    """Draw the lines as text: they are marked a, b, … and labelled below."""
    slots = max(len(values) for values in lines.values())
    top = max(1.0001, *(max(values) for values in lines.values()))
    grid = [[" "] * (3 * slots) for _ in range(ROWS)]
    for mark, values in zip("abcdefghijklmnopqrstuvwxyz", lines.values(), strict=False):
        for n, value in enumerate(values):
            row = round((value - 1) / (top - 1) * (ROWS - 1))
            grid[ROWS - 1 - row][3 * n + 2] = mark
    labels = [1 + (top - 1) * (ROWS - 1 - row) / (ROWS - 1) for row in range(ROWS)]
    body = [f"{label:6.2f} |{''.join(cells)}" for label, cells in zip(labels, grid, strict=True)]
    axis = "       +" + "-" * (3 * slots)
    numbers = "        " + "".join(f"{n:3d}" for n in range(1, slots + 1)) + "  slots"
    legend = "  ".join(
        f"{mark}: p = {p:g}" for mark, p in zip("abcdefghijklmnopqrstuvwxyz", lines, strict=False)
    )
    return "\n".join([*body, axis, numbers, "        " + legend])
