"""``farm study``: a published experiment, played again."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from farm.app.studies.page import tables, write_page
from farm.app.studies.thesis.job_sets import MAX_SETS
from farm.app.studies.thesis.study import TITLE, Part, thesis
from farm.core.errors import InputError
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
        int, typer.Option(min=1, max=MAX_SETS, help="Job sets; the thesis has 1000.")
    ] = 20,
    part: Annotated[
        list[Part] | None, typer.Option(help="Only this part (may be repeated).")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="A slice of section 5.1 on a real farm, too.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Recorded jobs for the future work.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Play a published experiment again and write its figures and tables into one page.

    The thesis: its claims, figures 4.1 and 5.1 to 5.12, tables 5.1 and 5.2, the result table of
    section 5.4, and its future work, on common job sets. With Numba (the extra fast) a thousand
    sets take some ten seconds on two cores; --live takes some five minutes more.
    """
    if out.suffix != ".html":
        raise InputError(f"--out: found {out.name!r}; allowed: a name that ends in .html")
    if not out.parent.is_dir():
        raise InputError(f"--out: found no folder {out.parent}; allowed: one that is there")
    parts = part or list(Part)
    if trace is not None and Part.FUTURE_WORK not in parts:
        raise InputError("--trace: found without the future work; allowed: with --part future-work")
    hidden = quiet or as_json or not sys.stderr.isatty()
    tell = (lambda _: None) if hidden else _told
    found = thesis(runs, parts, live=live, trace=trace, tell=tell)
    write_page(out, TITLE, found)
    if as_json:
        print_json({"which": which, "runs": runs, "tables": tables(found)})
    elif not quiet:
        typer.echo(f"{sum(len(one.charts) for one in found)} figures written to {out}")


def _told(what: str) -> None:
    typer.echo(f"playing {what} …", err=True)
