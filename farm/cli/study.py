"""``farm study``: a published experiment, played again, or every autoscaler on one week."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from farm.app.studies import autoscalers
from farm.app.studies.page import write_page
from farm.app.studies.thesis import study as thesis
from farm.app.studies.thesis_model import MOST_SETS
from farm.cli.display.runs_progress import runs_progress
from farm.core.errors import InputError
from farm.results.report.page import write_page as write_report
from farm.terminal.console import FarmConsole
from farm.terminal.options import AsJson, Quiet


class Published(StrEnum):
    """What can be played again."""

    THESIS = "thesis"
    AUTOSCALERS = "autoscalers"


def study(
    which: Annotated[Published, typer.Argument(help="What is played.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="PAGE", help="The page to write; absent: thesis.html, ….html."
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, max=MOST_SETS, help="Job sets; the thesis has 1000.")
    ] = 20,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Autoscalers: recorded jobs instead of the week."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Play a published experiment again and write its figures and tables into one page.

    Autoscalers: what each provisioning algorithm does with one week of a browser's CI, on a farm
    where all goes well and on one with troubles: wait, cost, idle share, churn.

    The thesis: figures 4.1 and 5.1 to 5.12, tables 5.1 and 5.2, and the result table of section
    5.4, on common job sets. 20 sets take a quarter of a minute; from 50 on Numba is used if it is
    installed (the extra fast), and all 1000 take some minutes.
    """
    out = out or Path(f"{which}.html")
    if which is Published.AUTOSCALERS:
        _autoscalers(out, trace, as_json=as_json, quiet=quiet)
        return
    hidden = quiet or as_json or not sys.stderr.isatty()
    found = thesis(runs, (lambda _: None) if hidden else _told)
    write_page(out, found)
    if as_json:
        tables = {one.title: [dict(zip(one.columns, r, strict=True)) for r in one.rows]
                  for one in found.tables}  # fmt: skip
        typer.echo(msgspec.json.encode({"which": which, "runs": runs, "tables": tables}).decode())
    elif not quiet:
        typer.echo(f"{len(found.figures)} figures and {len(found.tables)} tables written to {out}")


def _autoscalers(out: Path, trace: Path | None, *, as_json: bool, quiet: bool) -> None:
    if out.suffix != ".html":
        raise InputError(f"--out: found {out.name!r}; allowed: a name that ends in .html")
    with runs_progress(quiet=quiet) as told:
        found = autoscalers.play(trace, told)
    write_report(out, autoscalers.document(found))
    if as_json:
        typer.echo(msgspec.json.encode({"which": "autoscalers", "outcomes": found}).decode())
        return
    shown = Table("algorithm", "farm", "mean wait", "p95 wait", "cost", "idle", "churn", "lost",
                  "done", title=autoscalers.TITLE)  # fmt: skip
    for one in found:
        shown.add_row(*autoscalers.row_of(one))
    FarmConsole().print(shown)
    if not quiet:
        typer.echo(f"wait against cost, and the table: {out}", err=True)


def _told(what: str) -> None:
    typer.echo(f"playing {what} …", err=True)
