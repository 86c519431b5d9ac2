"""``farm admin export``: a finished run in other programs' formats."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from farm.app.recorded.backfill import Place, write_blocks, write_text
from farm.app.recorded.played_again import load_run
from farm.core.errors import InputError, file_access, not_among
from farm.plugins.entry_points import SOURCES, entries, on_records
from farm.records.bundle import is_bundle
from farm.results.exports import EXPORTS
from farm.results.run_directory import Run
from farm.terminal.options import Quiet, RunPath, seconds_of
from farm.terminal.output import progress, remark

OPENMETRICS = "openmetrics"
FORMATS = (*EXPORTS, OPENMETRICS)
#: the systems that records can be written of
SYSTEMS = tuple(entry.name for entry in entries(SOURCES))
RECORDS = tuple(name for name in SYSTEMS if name not in FORMATS)
STDOUT = Path("-")


def export(
    run: RunPath,
    wanted: Annotated[
        str, typer.Option("--format", "-f", help=f"One of {', '.join((*FORMATS, *RECORDS))}.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT")] = None,
    into: Annotated[Path | None, typer.Option(metavar="DATA")] = None,
    interval: str | None = None,
    start: str | None = None,
    quiet: Quiet = False,
) -> None:
    """Write a finished run, or a bundle of records, in other programs' formats.

    github, gitlab, … are the records that such a farm would have left, without its configuration
    (farm import reads them).

    OpenMetrics is for back-filling into Prometheus. A back-filled run has the label
    instance=<the run directory's name>, and is shown by the same dashboards as the live farm
    (docs/reference/metrics.md).

    Args:
        out: A new file (batsim: a new directory); - is standard output.
        into: openmetrics, instead of -o: Prometheus's data directory (promtool fills it).
        interval: openmetrics: farm time between samples. Default: 5s up to two hours, else 1m.
        start: openmetrics: the instant of farm time 0 (ISO 8601, by default UTC). Default: a
            midnight such that the run ended at least 3 hours before it was made.

    Examples:
        farm admin export run --format csv -o jobs.csv
        farm admin export run --format pipelines -o pipelines.csv  response times and critical paths
        farm admin export run --format github -o jobs.json  as GitHub would have recorded it
    """
    _check(wanted, out, into, interval, start)
    target = into or out or STDOUT
    if wanted in RECORDS or is_bundle(run):
        _export_records(run, wanted, target)
        return
    found = load_run(run)
    try:
        with progress("exporting", silent=quiet or target == STDOUT):
            if wanted == OPENMETRICS:
                place = _place(found, start, interval)
                lines = _back_fill(found, place, target, blocks=into is not None)
            else:
                count = _jobs(found, wanted, target)
                what = "pipelines" if wanted == "pipelines" else "jobs"
                lines = [f"{_shown(target)}: {count:,} {what}"]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{_shown(target)}: cannot be written: {error.strerror}") from None
    remark(*lines, quiet=quiet)


def _check(
    wanted: str, out: Path | None, into: Path | None, interval: str | None, start: str | None
) -> None:
    known = (*FORMATS, *RECORDS)
    if wanted not in known:
        raise InputError(f"--format: {not_among(wanted, known)}")
    if (out is None) == (into is None):
        found = "neither" if out is None else "both"
        raise InputError(f"-o, --into: found {found}; allowed: -o OUT, or --into DATA")
    for option, value in (("--into", into), ("--interval", interval), ("--start", start)):
        if value is not None and wanted != OPENMETRICS:
            raise InputError(f"{option}: found with --format {wanted}; allowed: with openmetrics")
    if into is not None and into.exists() and not into.is_dir():
        raise InputError(f"{into}: is no directory; allowed: Prometheus's data directory")
    if out == STDOUT and wanted == "batsim":
        raise InputError("-o -: batsim is four files; allowed: -o with a new directory")
    if out == STDOUT and sys.stdout is None:
        raise InputError("-o -: standard output is closed; allowed: -o with a new file")
    if out not in (None, STDOUT) and out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file or directory")


def _export_records(run: Path, wanted: str, out: Path) -> None:
    if wanted not in SYSTEMS:
        raise InputError(f"--format: {not_among(wanted, SYSTEMS)} for a bundle")
    records = run if is_bundle(run) else load_run(run)
    with progress("exporting", silent=out == STDOUT), file_access(out), _draft_of(out) as draft:
        count = on_records("export")(wanted, records, draft)
    remark(f"{out}: {count:,} attempts", quiet=out == STDOUT)


def _jobs(run: Run, wanted: str, out: Path) -> int:
    with _draft_of(out) as draft:
        return EXPORTS[wanted](run, draft)


def _back_fill(run: Run, place: Place, target: Path, *, blocks: bool) -> list[str]:
    if blocks:
        samples = write_blocks(run, place, target)
    elif target == STDOUT:
        with open(1, "w", encoding="utf-8", newline="\n", closefd=False) as sink:
            samples = write_text(run, place, sink)
    else:
        with _draft_of(target) as draft, draft.open("w", encoding="utf-8", newline="\n") as sink:
            samples = write_text(run, place, sink)
    lines = [
        f"{_shown(target)}: {samples:,} samples, {place}",
        f"in Grafana: {place.dashboard(run.name)}",
    ]
    if place.is_recent:
        lines.append(
            "note: it ends less than 3 hours ago; a Prometheus that also scrapes a live farm would "
            "lose, at its next start, what it has in memory of the time before. See --start"
        )
    return lines


@contextmanager
def _draft_of(out: Path) -> Iterator[Path]:
    """Provide a path that becomes ``out`` once it is complete; of a failed export nothing stays."""
    place = None if out == STDOUT else out.parent
    with tempfile.TemporaryDirectory(prefix=".farm-export-", dir=place) as folder:
        draft = Path(folder) / out.name
        yield draft
        if out != STDOUT:
            draft.rename(out)
            return
        with draft.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)


def _shown(target: Path) -> str:
    return "standard output" if target == STDOUT else str(target)


def _place(run: Run, start: str | None, interval: str | None) -> Place:
    return Place.of(
        run,
        None if start is None else _instant(start),
        None if interval is None else seconds_of(interval, "--interval"),
    )


def _instant(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--start: {error}; allowed: such as 2024-05-01T09:00:00Z") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
