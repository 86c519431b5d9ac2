"""``farm risk``: the risk of overload, as in figure 4.1 of the thesis."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.core.contention.laws import THESIS_TABLE, slowdown_table
from farm.core.errors import InputError
from farm.forecasts.overload_risk import expected_slowdown
from farm.results.figures.lines import Figure, write_figures
from farm.terminal.options import AsJson, Plot
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing, numbers

Lines = dict[float, list[float]]


def risk(
    slots: Annotated[int, typer.Option(min=1, max=1000)] = 16,
    heavy: str = "0.1,0.2,0.3,0.4,0.5",
    slowdown: str = "thesis",
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Print the expected slowdown of a builder that is filled at random.

    f(n, p) = Σ x_k · C(n,k) · p^k · (1-p)^(n-k), k = 0 … n: with n slots and a share p of heavy
    jobs, where x_k is the slowdown with k of them on the builder.

    Args:
        slots: Maximum number of slots per builder.
        heavy: Fractions of heavy jobs, separated by commas.
        slowdown: Slowdown by number of heavy jobs, such as 1,1,1.4; or thesis.
    """
    lines = risk_lines(slots, _numbers(heavy, "--heavy"), slowdown)
    if plot is not None:
        write_figures(plot, [_figure(lines)], "--plot")
    if as_json:
        print_json(_as_json(lines, slowdown))
        return
    note(_table(lines))
    if plot is not None:
        note(f"Figure written to {plot}")


def risk_lines(slots: int, fractions: list[float], slowdown: str) -> Lines:
    """Compute f(n, p) for n = 1 … slots and each fraction p."""
    thesis = slowdown == "thesis"
    table = (
        THESIS_TABLE if thesis else slowdown_table(_numbers(slowdown, "--slowdown"), "--slowdown")
    )
    return {
        p: [expected_slowdown(n, p, table.slowdown) for n in range(1, slots + 1)] for p in fractions
    }


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option}: found {text!r}; expected numbers separated by commas"
        ) from None


def _figure(lines: Lines) -> Figure:
    """Return the thesis's figure 4.1: for each share of heavy jobs a line over the slots."""
    return Figure(
        "Expected slowdown of a builder filled at random",
        {f"p = {p:g}": list(enumerate(values, 1)) for p, values in lines.items()},
        ("slots per builder (n)", "slowdown"),
    )


def _table(lines: Lines) -> Listing:
    columns = numbers("slots n", *(f"p = {fraction:g}" for fraction in lines))
    rows = (
        (str(n), *(f"{value:.3f}" for value in row))
        for n, row in enumerate(zip(*lines.values(), strict=True), 1)
    )
    return Listing(columns, rows, title="Expected slowdown f(n, p)")


def _as_json(lines: Lines, slowdown: str) -> dict[str, object]:
    rows = [
        {"slots": n, "heavy_fraction": p, "expected_slowdown": value}
        for p, values in lines.items()
        for n, value in enumerate(values, 1)
    ]
    return {"slowdown": slowdown, "risk": rows}
