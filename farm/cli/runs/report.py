"""``farm report``: writes a page of figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from farm.app.report import follow_run, write_figure
from farm.app.report import report as write_report
from farm.core.errors import InputError
from farm.results.run_directory import newest_run
from farm.terminal.options import Quiet
from farm.terminal.output import progress, remark, show_share


def report(
    what: Annotated[list[Path] | None, typer.Argument(metavar="[RUN …]")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")] = Path("report.html"),
    figure: str | None = None,
    follow: Annotated[bool, typer.Option("--follow")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a page with the figures of a run, of several, of a sweep, or of a farm's records.

    Args:
        what: Run directories, or the directory of one sweep, or of one bundle. Default: the newest
            run below runs.
        out: The page, or figure, to write.
        figure: Instead: one figure of a run, such as queue, as .svg, .png or .pdf.
        follow: While a run is in progress, write its page again every five seconds; a browser
            that shows it follows. Ctrl-C ends it.

    Examples:
        farm report                  a page of the newest run (--follow: while it runs)
        farm report one two          both on one page
        farm report run --figure queue -o queue.svg
    """
    if not what:
        what = [newest_run()]
        remark(f"{what[0]} is the newest run", quiet=quiet)
    if follow:
        if len(what) > 1 or figure is not None:
            raise InputError("--follow: found with several runs, or --figure; allowed: one run")
        with progress("following", silent=quiet) as update:
            page = follow_run(what[0], out, on_step=lambda step, _: update(description=step))
        written = [page]
    elif figure is None:
        with progress("writing", silent=quiet) as update:
            page = write_report(*what, out=out, on_step=partial(show_share, update))
        written = [page]
    elif len(what) > 1:
        raise InputError(f"--figure: found {len(what)} runs; allowed: one")
    else:
        with progress(f"drawing {figure}", silent=quiet):
            written = write_figure(what[0], figure, out)
    remark(*(f"{path}: written" for path in written), quiet=quiet)
