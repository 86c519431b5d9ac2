"""``farm init``: writes a first scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.first_scenario import write_first_scenario
from farm.cli.runs.run_summary import suggest, this_command
from farm.terminal.options import Columns, Quiet, columns_of
from farm.terminal.output import progress


def init(
    trace: Annotated[Path | None, typer.Argument(metavar="[TRACE]")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")] = Path("scenario.yaml"),
    column: Columns = None,
    quiet: Quiet = False,
) -> None:
    """Write a commented, runnable scenario, with a pool for each platform of a trace.

    Args:
        trace: Recorded jobs. Default: those of the quickstart.
        out: The new file.
    """
    fields = columns_of(column)
    with progress("reading", silent=quiet):
        remarks = write_first_scenario(out, trace, fields)
    if not quiet:
        suggest(*remarks, f"{out}: written; try it: {this_command()} simulate {out}")
