"""``farm twin``: a simulated farm that waits as a real one did, from its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.twin import PoolTwin, write_twin
from farm.cli.runs.run_summary import suggest, this_command
from farm.records import load_records
from farm.records.bundle import is_bundle
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.terminal.options import AsJson, Columns, Quiet, Source, Zone, columns_of, zone_of
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing, folding, numbers
from farm.twin.baseline import Interval

HEADINGS = (
    "jobs", "recorded mean", "simulated", "error", "recorded p95", "simulated", "error",
    "per job", "correlation", "within 1m", "within 10m",
)  # fmt: skip


def twin(
    files: Annotated[list[Path], typer.Argument(metavar="BUNDLE|FILES")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE")] = Path("twin.yaml"),
    source: Source = None,
    zone: Zone = None,
    column: Columns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a scenario that waits as a real farm did, and hold it against that farm's records.

    Args:
        files: A bundle of farm import, or the files of a source as they were fetched (- is
            standard input); the bundle of files is written beside the scenario.
        out: The new scenario.
    """
    with progress("reading", silent=quiet):
        bundle = load_records(files, source, columns_of(column), zone_of(zone))
    place = files[0] if is_bundle(files[0]) else None
    with progress("trying pools", silent=quiet) as update:
        made = write_twin(bundle, place, out, lambda text: update(description=text))
    if as_json:
        print_json({"pools": made.pools, "written": str(out) if out.exists() else None})
    else:
        for remark in () if quiet else bundle.manifest.remarks:
            note(remark, err=True)
        note(Listing(folding("pool", "verdict"), [(one.name, one.verdict) for one in made.pools]))
        note("")
        note(
            Listing(
                (*folding("pool"), *numbers(*HEADINGS)),
                [_row(one) for one in made.pools],
                caption="on the second half of the records, which the twin was not made from; "
                "errors with 95 % intervals",
                first_to_go=("within 10m", "correlation", "within 1m"),
            )
        )
    if out.exists() and not quiet and not as_json:
        suggest(f"{out}: written; try it: {this_command()} simulate {out}")
    if not made.believable:
        raise typer.Exit(1)


def _row(one: PoolTwin) -> tuple[str, ...]:
    found = one.check
    if found is None:
        return (one.name, *("-" for _ in HEADINGS))
    return (
        one.name,
        f"{found.jobs:,}",
        readable_span(found.recorded_mean),
        readable_span(found.simulated_mean),
        _error(found.mean_error),
        readable_span(found.recorded_p95),
        readable_span(found.simulated_p95),
        _error(found.p95_error),
        readable_span(found.error_per_job.value),
        readable_ratio(found.correlation),
        readable_percent(found.within_1m),
        readable_percent(found.within_10m),
    )


def _error(one: Interval) -> str:
    low, high = readable_percent(one.low, signed=True), readable_percent(one.high, signed=True)
    return f"{readable_percent(one.value, signed=True)} ({low} to {high})"
