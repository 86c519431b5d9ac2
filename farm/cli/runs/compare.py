"""``farm compare``: compares runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.recorded.result import compare as compare_runs
from farm.results.comparison.comparison_tables import render_comparison
from farm.terminal.options import AsJson, Relevant, share_of
from farm.terminal.output import note, shared_progress


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN …")],
    relevant: Relevant = "1%",
    as_json: AsJson = False,
) -> None:
    """Compare runs with the first one: what differs, and whether it is significant and relevant.

    Args:
        runs: Run directories; the first is the base. Seeds of one setting are pooled.

    Examples:
        farm compare one two                      two run directories
        farm compare one two three --relevant 5%  smaller differences do not count
        farm compare one two --json
    """
    least = share_of(relevant)
    with shared_progress("comparing", silent=as_json) as on_share:
        comparison = compare_runs(*runs, relevant=least, on_share=on_share)
    if as_json:
        typer.echo(comparison.to_json().decode())
    else:
        note(render_comparison(comparison))
