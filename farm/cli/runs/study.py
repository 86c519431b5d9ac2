"""``farm study``: repeats a published experiment, or compares all autoscalers on one week."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from farm.app.studies import autoscalers
from farm.app.studies.thesis.job_sets import MAX_SETS
from farm.app.studies.thesis.study import TITLE, Part, tables, thesis
from farm.core.errors import InputError
from farm.results.figures.page import page, write_page
from farm.results.output_file import check_output
from farm.terminal.options import AsJson, Quiet
from farm.terminal.output import counted_progress, note, print_json, progress
from farm.terminal.tables import Listing, numbers, texts

#: the default number of job sets of the thesis
SETS = 20


class Published(StrEnum):
    """The studies."""

    THESIS = "thesis"
    AUTOSCALERS = "autoscalers"


def study(
    which: Published,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="PAGE")] = None,
    runs: Annotated[int | None, typer.Option(min=1, max=MAX_SETS)] = None,
    part: list[Part] | None = None,
    live: Annotated[bool, typer.Option("--live")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a published experiment and write its figures and tables to a page.

    Autoscalers: all provisioning algorithms on one week of a browser's CI, on a farm without
    faults and on one with faults: wait, cost, idle share, churn. It takes half a minute on two
    idle cores.

    Thesis: its claims, figures 4.1 and 5.1 to 5.12, tables 5.1 and 5.2, the result table of section
    5.4, and its future work, on common job sets. With Numba (the extra fast) a thousand sets take
    about fifteen seconds on two cores; --live takes about five minutes more.

    Args:
        which: The study.
        out: The page to write. Default: thesis.html or autoscalers.html.
        runs: Thesis: number of job sets, of which it has 1000. Default: 20.
        part: Thesis: only this part; repeatable.
        live: Thesis: also run a part of section 5.1 on a live farm.
        trace: Recorded jobs for the thesis's future work (default: of this project's own tests), or
            for the week.
    """
    out = out or Path(f"{which}.html")
    check_output(out, [".html"], "--out")
    if which is Published.AUTOSCALERS:
        if runs is not None or part or live:
            raise InputError("--runs, --part, --live: found with autoscalers; allowed: with thesis")
        _autoscalers(out, trace, as_json=as_json, quiet=quiet)
        return
    runs, parts = runs or SETS, part or list(Part)
    if trace is not None and Part.FUTURE_WORK not in parts:
        raise InputError("--trace: found without the future work; allowed: with --part future-work")
    with progress("playing", silent=quiet or as_json) as update:
        found = thesis(
            runs,
            parts,
            live=live,
            trace=trace,
            on_step=lambda step: update(description=f"playing {step}"),
        )
    shown = {"tables": tables(found)}
    write_page(out, page(TITLE, found, shown))
    if as_json:
        print_json({"which": which, "runs": runs, **shown})
    elif not quiet:
        typer.echo(f"{sum(len(one.charts) for one in found)} figures written to {out}")


def _autoscalers(out: Path, trace: Path | None, *, as_json: bool, quiet: bool) -> None:
    with counted_progress("runs", silent=quiet) as show:
        found = autoscalers.play(trace, show)
    write_page(out, autoscalers.document(found))
    if as_json:
        print_json({"which": "autoscalers", "outcomes": found})
        return
    columns = (*texts(*autoscalers.HEAD[:2]), *numbers(*autoscalers.HEAD[2:]))
    note(Listing(columns, map(autoscalers.row_of, found), title=autoscalers.TITLE))
    if not quiet:
        note(f"wait against cost, and the table: {out}", err=True)
