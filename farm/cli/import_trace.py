"""``farm import``: recorded jobs in, as a table that a scenario can use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from farm.core.errors import InputError
from farm.scenario import TraceOptions
from farm.terminal.options import Quiet
from farm.workload import read_trace, write_csv
from farm.workload.traces import FORMATS


def import_trace(
    trace_format: Annotated[
        str, typer.Argument(metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")
    ],
    source: Annotated[Path, typer.Argument(metavar="IN", help="The trace.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="A new csv file.")],
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Only this many jobs, the first ones.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Read a trace and write it as csv, which scenarios take."""
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    options = TraceOptions(jobs=jobs)
    jobs_read = read_trace(source, trace_format, options)
    try:
        count = write_csv(jobs_read, out)
    except OSError as error:
        raise InputError(f"{out}: cannot write: {error.strerror}") from None
    if not quiet:
        Console(stderr=True).print(f"{out}: {count:,} jobs", highlight=False)
