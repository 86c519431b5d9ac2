"""``farm import``: converts recorded jobs to a table that a scenario can use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from farm.core.errors import InputError, file_access
from farm.core.model import Job
from farm.results.formatting import readable_span
from farm.scenario import TraceOptions
from farm.terminal.console import many
from farm.terminal.options import Columns, Quiet, columns_of
from farm.terminal.output import note, progress
from farm.terminal.tables import Listing, folding, texts
from farm.workload import write_csv
from farm.workload.traces import FORMATS, read_records, trace_jobs

SHOWN = 5


def import_trace(
    trace_format: Annotated[
        str, typer.Argument(metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")
    ],
    source: Annotated[Path, typer.Argument(metavar="IN")],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT")] = None,
    column: Columns = None,
    show: Annotated[bool, typer.Option("--show")] = False,
    parallel: Literal["one", "split", "refuse"] = "one",
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    quiet: Quiet = False,
) -> None:
    """Read a trace and write it as csv, for scenarios.

    Args:
        source: The trace.
        out: A new csv file.
        show: Show the first jobs, the platforms, and what is left out.
        parallel: Treat jobs of several processors as one slot, split them, or refuse them.
        jobs: Only the first N jobs.
    """
    if out is None and not show:
        raise InputError("import: found neither --out nor --show; allowed: one of them, or both")
    if out is not None and out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    fields = columns_of(column)
    options = TraceOptions(jobs=jobs, fields=fields, parallel=parallel)
    with progress("reading", silent=quiet):
        records = read_records(source, trace_format, options)
        found = list(trace_jobs(records, options, records.name))
    for remark in () if quiet else records.remarks:
        note(remark, err=True)
    if show:
        _show(found)
    if out is not None:
        with file_access(out):
            write_csv(found, out)
        if not quiet:
            note(f"{out}: {len(found):,} jobs", err=True)


def _show(jobs: Sequence[Job]) -> None:
    columns = (*texts("job", "arrives", "runs", "platform", "kind"), *folding("attributes"))
    rows = [
        (
            job.id,
            readable_span(job.arrived_at),
            readable_span(job.service_time),
            str(job.platform),
            job.kind,
            " ".join(f"{key}={value}" for key, value in job.attributes.items()),
        )
        for job in jobs[:SHOWN]
    ]
    note(Listing(columns, rows))
    counts = Counter(str(job.platform) for job in jobs)
    platforms = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(20))
    note(f"{many(len(jobs), 'job')}; platforms: {platforms}")
