"""``farm import``: records of other farms into a bundle, or a trace into a table of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from farm.core.errors import InputError, file_access, not_among
from farm.core.model import Job
from farm.records.bundle import Bundle, with_capacity, write_bundle
from farm.records.traces import FORMATS, read_records
from farm.records.traces.csv_table import write_csv
from farm.results.formatting import readable_span
from farm.scenario import TraceOptions
from farm.terminal.cells import folding, texts
from farm.terminal.options import (
    Columns,
    Quiet,
    Slots,
    Workflows,
    Zone,
    columns_of,
    zone_of,
)
from farm.terminal.output import note, progress, reading_progress, remark
from farm.terminal.tables import Listing
from farm.units import many
from farm.whole_files import STDIN, draft_of
from farm.workload.recorded import trace_jobs
from farm_twin.bundles.anonymizing import anonymized
from farm_twin.importing import NAMES, import_files, source_of

SHOWN = 5
EVERY = tuple(dict.fromkeys((*NAMES, *FORMATS)))


def import_trace(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help=f"One of {', '.join(EVERY)}; left out, it is recognised by the first of FILES.",
        ),
    ],
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILES")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT")] = None,
    column: Columns = None,
    workflows: Workflows = None,
    zone: Zone = None,
    slots: Slots = None,
    anonymize: Annotated[bool, typer.Option("--anonymize")] = False,
    show: Annotated[bool, typer.Option("--show")] = False,
    parallel: Literal["one", "split", "refuse"] = "one",
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    quiet: Quiet = False,
) -> None:
    """Read what happened on another farm into a bundle, or a trace into a table of jobs.

    Args:
        files: What was fetched from it (gzip allowed, - is standard input), or one trace.
        out: A new directory for the bundle, or a new csv file for a trace's jobs.
        anonymize: Replace all names by hashes, whose key is forgotten; labels of runners stay.
        show: Show the first jobs, the platforms, and what is left out.
        parallel: Of a trace: treat jobs of several processors as one slot, split them, or refuse.
        jobs: Of a trace: only the first N jobs.

    Examples:
        farm import github runs.json -o mine               a bundle, for farm doctor and farm twin
        farm import csv jobs.csv --column submitted=created_at --show -o mine
        farm import swf log.swf.gz -o jobs.csv --jobs 500  the first jobs of a trace, as a table
    """
    files = files or []
    if source not in EVERY:
        if not Path(source).exists():
            file = ", which is no file either" if Path(source).suffix else ""
            raise InputError(f"import: {not_among(source, EVERY)}{file}")
        files = [Path(source), *files]
        source = source_of(files)
    if not files:
        raise InputError(f"import: found no files; allowed: farm import {source} FILES")
    if out is None and not show:
        raise InputError("import: found neither --out nor --show; allowed: one of them, or both")
    if out is not None and out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file or directory")
    fields = columns_of(column)
    of_bundles = {
        "--anonymize": anonymize,
        "--slots": slots is not None,
        "--zone": zone,
        "--workflows": workflows is not None,
    }
    with_bundle = next((option for option, found in of_bundles.items() if found), None)
    # csv and taskcluster are both: then a table was meant if the result is to be one
    if source in FORMATS and (
        source not in NAMES or _is_table(source, files, out, with_bundle is not None)
    ):
        if with_bundle is not None:
            raise InputError(
                f"import: found {with_bundle} with a table of jobs; "
                "allowed: with a bundle, -o DIRECTORY"
            )
        if len(files) > 1:
            raise InputError(f"import: found {len(files)} files; allowed with {source}: one")
        options = TraceOptions(jobs=jobs, fields=fields, parallel=parallel)
        _trace(source, files[0], out, options, show=show, quiet=quiet)
        return
    of_traces = {"--jobs": jobs is not None, "--parallel": parallel != "one"}
    with_trace = next((option for option, found in of_traces.items() if found), None)
    if with_trace is not None:
        raise InputError(
            f"import: found {with_trace} with records that become a bundle; "
            "allowed: with a trace, -o FILE.csv"
        )
    if out is not None and out.suffix == ".csv":
        raise InputError(f"{out}: records of {source} become a bundle; allowed: a new directory")
    with reading_progress(silent=quiet) as on_read:
        bundle = with_capacity(
            import_files(files, source, fields, zone_of(zone), on_read, workflows), slots
        )
    remark(*bundle.manifest.remarks, quiet=quiet)
    bundle = anonymized(bundle) if anonymize else bundle
    if show:
        _show_bundle(bundle)
    if out is not None:
        with progress("writing", silent=quiet):
            write_bundle(out, bundle)
        written = many(len(bundle.attempts), "attempt")
        remark(f"{out}: {written}; farm doctor {out}", quiet=quiet)


def _is_table(
    source: str, files: Sequence[Path], out: Path | None, has_option_of_bundles: bool
) -> bool:
    if STDIN in files:
        return False
    if out is not None:
        return out.name.endswith(".csv")
    return not has_option_of_bundles and (
        source == "csv" or files[0].name.endswith(FORMATS[source].endings)
    )


def _trace(
    name: str, path: Path, out: Path | None, options: TraceOptions, *, show: bool, quiet: bool
) -> None:
    with progress("reading", silent=quiet):
        records = read_records(path, name, options)
        found = list(trace_jobs(records, options, records.name))
    remark(*records.remarks, quiet=quiet)
    if show:
        _show(found)
    if out is not None:
        with file_access(out), progress("writing", silent=quiet), draft_of(out) as draft:
            write_csv(found, draft, records.happened, needs="needs" in records.details)
        remark(f"{out}: {len(found):,} jobs", quiet=quiet)


def _show(jobs: Sequence[Job]) -> None:
    columns = (*texts("job", "arrives", "runs", "platform", "kind"), *folding("attributes"))
    rows = [
        (
            job.id,
            readable_span(job.arrived_at),
            readable_span(job.service_time),
            str(job.platform),
            job.kind,
            _pairs(job.attributes),
        )
        for job in jobs[:SHOWN]
    ]
    note(Listing(columns, rows))
    _note_platforms([str(job.platform) for job in jobs])


def _show_bundle(bundle: Bundle) -> None:
    columns = (
        *texts("job", "attempt", "waited", "ran", "result", "runner", "platform", "kind"),
        *folding("attributes"),
    )
    rows = [
        (
            one.id,
            str(one.attempt),
            readable_span(one.waited),
            readable_span(one.ran),
            one.result,
            one.runner,
            one.platform,
            one.kind,
            _pairs(one.attributes),
        )
        for one in bundle.attempts[:SHOWN]
    ]
    note(f"{bundle.manifest.begins} to {bundle.manifest.ends}", Listing(columns, rows))
    _note_platforms([one.platform for one in bundle.attempts])


def _pairs(attributes: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in attributes.items())


def _note_platforms(names: Sequence[str]) -> None:
    counts = Counter(names)
    platforms = ", ".join(f"{name} ({count:,})" for name, count in counts.most_common(20))
    note(f"{many(len(names), 'job')}; platforms: {platforms}")
