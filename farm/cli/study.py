"""``farm study``: a published experiment, played again."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from farm.app.studies.page import write_page
from farm.app.studies.thesis import study as thesis
from farm.app.studies.thesis_model import MOST_SETS
from farm.terminal.options import AsJson, Quiet
from farm.terminal.output import print_json


class Published(StrEnum):
    """What can be played again."""

    THESIS = "thesis"


def study(
    which: Annotated[Published, typer.Argument(help="The thesis on CI scheduling policies.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="PAGE", help="The page to write (.html).")
    ] = Path("thesis.html"),
    runs: Annotated[
        int, typer.Option(min=1, max=MOST_SETS, help="Job sets; the thesis has 1000.")
    ] = 20,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Play a published experiment again and write its figures and tables into one page.

    The thesis: figures 4.1 and 5.1 to 5.12, tables 5.1 and 5.2, and the result table of section
    5.4, on common job sets. 20 sets take a quarter of a minute; from 50 on Numba is used if it is
    installed (the extra fast), and all 1000 take some minutes.
    """
    hidden = quiet or as_json or not sys.stderr.isatty()
    found = thesis(runs, (lambda _: None) if hidden else _told)
    write_page(out, found)
    if as_json:
        tables = {one.title: [dict(zip(one.columns, r, strict=True)) for r in one.rows]
                  for one in found.tables}  # fmt: skip
        print_json({"which": which, "runs": runs, "tables": tables})
    elif not quiet:
        typer.echo(f"{len(found.figures)} figures and {len(found.tables)} tables written to {out}")


def _told(what: str) -> None:
    typer.echo(f"playing {what} …", err=True)
