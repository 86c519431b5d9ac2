"""``farm compare``: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from farm.cli.options import AsJson
from farm.core.errors import InputError
from farm.results.comparison.comparison import compare as compare_runs
from farm.results.comparison.table import render_comparison
from farm.results.run_directory import load_run


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN …", help="Run directories; the first is the base."),
    ],
    as_json: AsJson = False,
) -> None:
    """Compare runs with the first: differences, which is better, and whether that is noise."""
    if len(runs) < 2:
        raise InputError(f"compare: found {len(runs)} run; allowed: two or more")
    comparison = compare_runs([load_run(path) for path in runs], np.random.default_rng(1))
    if as_json:
        typer.echo(comparison.to_json().decode())
    else:
        Console().print(render_comparison(comparison))
