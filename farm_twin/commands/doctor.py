"""``farm doctor``: says why the jobs of a real farm wait, from its records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from farm.core.errors import TraceError
from farm.records.bundle import with_capacity
from farm.results.formatting import sentence
from farm.terminal.cells import Cell, Styled, folding, numbers
from farm.terminal.options import (
    AsJson,
    Columns,
    Quiet,
    Slots,
    Source,
    Workflows,
    Zone,
    columns_of,
    seconds_of,
    zone_of,
)
from farm.terminal.output import (
    note,
    print_json,
    reading_progress,
    remark,
    shared_progress,
    this_command,
)
from farm.terminal.plain_text import MAX_MESSAGE, plain
from farm.terminal.tables import Listing
from farm_twin.diagnosis.diagnose import Examination, diagnose
from farm_twin.diagnosis.figures import FarmFigures
from farm_twin.diagnosis.table import FIRST_TO_GO, HEADINGS, about, row_of
from farm_twin.diagnosis.verdict import Verdict
from farm_twin.importing import load_records

MIN_OBJECTIVE = 1e-3
"""Seconds; a shorter wait cannot be aimed at."""


def doctor(
    files: Annotated[list[Path], typer.Argument(metavar="BUNDLE|FILES")],
    source: Source = None,
    objective: Annotated[str, typer.Option(metavar="TIME")] = "5m",
    slots: Slots = None,
    zone: Zone = None,
    column: Columns = None,
    workflows: Workflows = None,
    strict: Annotated[bool, typer.Option("--strict")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say why the jobs of a real farm wait: its load, servers and waits, by platform.

    Where a simulation of the records waits as they did, what would shorten the waits is tried in
    it, and told.

    Args:
        files: A bundle of farm import, or the files of a source as they were fetched (- is
            standard input).
        objective: A platform is fine if 95 % of its jobs start within this time (of a scenario:
            farm plan --slo).
        strict: Refuse records that a check finds doubtful, with exit code 2.

    Examples:
        farm doctor mine                      a bundle of farm import
        farm doctor runs.json --objective 2m  files as they were fetched
        farm doctor jobs.csv --column submitted=created_at --zone Europe/Berlin
    """
    longest_wait = seconds_of(objective, "--objective", least=MIN_OBJECTIVE)
    clock = zone_of(zone)
    with reading_progress(silent=quiet) as on_read:
        records = load_records(files, source, columns_of(column), clock, on_read, workflows)
    bundle = with_capacity(records, slots)
    with shared_progress("examining", silent=quiet) as on_share:
        examination = diagnose(bundle, clock, longest_wait, on_share)
    if strict:
        examination.refuse_doubtful()
    figures = examination.figures
    all_verdicts = examination.verdicts
    if as_json:
        print_json(
            {
                "verdicts": all_verdicts,
                "findings": examination.findings,
                "figures": figures,
                "manifest": bundle.manifest,
            }
        )
    else:
        remark(*bundle.manifest.remarks, quiet=quiet)
        note(Listing(folding("platform", "verdict"), map(_row, all_verdicts)), "", _table(figures))
        note(*_checks(examination))
    reason = examination.why_no_platform_is_judged
    if reason:
        raise TraceError(f"these records cannot answer that: {reason}")
    command = f"{this_command()} twin {' '.join(map(str, files))} -o mine.yaml"
    if quiet or as_json:
        return
    from farm_twin.advice_on_records import (  # noqa: PLC0415 - it simulates
        advice_on_records,
    )

    with shared_progress("simulating the records") as on_share:
        advice = advice_on_records(bundle, examination, on_share)
    if advice.sentence:
        note(f"In simulation: {sentence(advice.sentence)}")
    if advice.why_not:
        note(f"What would shorten the waits is not told: {advice.why_not}.")
    remark(f"would they wait less with …? {command}")


def _row(verdict: Verdict) -> tuple[Cell, Cell]:
    text = plain(verdict.text, MAX_MESSAGE)
    return verdict.platform or "(no labels)", Styled((f"{verdict.title}: ", "bold"), (text, ""))


def _checks(examination: Examination) -> Iterator[str]:
    """Yield what the checks of the records have found, and what was assumed, each once."""
    for finding in examination.findings:
        yield sentence(f"{finding.rule}: {finding.text}")
    lines = [
        f"Assumed: {assumed.what}: {assumed.value}. Otherwise: {assumed.otherwise}."
        for verdict in examination.verdicts
        for assumed in verdict.assumed
    ]
    yield from dict.fromkeys(lines)


def _table(figures: FarmFigures) -> Listing:
    return Listing(
        (*folding("platform"), *numbers(*HEADINGS)),
        [row_of(one) for one in figures.platforms],
        caption=f"{figures.hours:,.1f} hours of records",
        about=about(figures),
        first_to_go=FIRST_TO_GO,
    )
