"""``farm report``: writes a page of figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.report import report as write_report
from farm.terminal.options import Quiet
from farm.terminal.output import note


def report(
    what: Annotated[
        list[Path],
        typer.Argument(metavar="RUN …", help="Run directories, or the directory of one sweep."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PAGE.html", help="The page to write.")
    ] = Path("report.html"),
    quiet: Quiet = False,
) -> None:
    """Write a page with the figures of a run, of several, or of a sweep."""
    write_report(*what, out=out)
    if not quiet:
        note(f"{out}: written", err=True)
