"""``farm admin calibrate``: measures how much heavy jobs slow others down on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from farm.app.calibrating.measuring import (
    CalibrationOptions,
    Reference,
    Timing,
    calibration,
    disturbed,
    processor_name,
)
from farm.app.calibrating.work_rates import burn_settings, rates_text
from farm.core.errors import InputError, file_access
from farm.core.model import MAX_THREADS
from farm.results.figures.line_charts import Figure, write_figures
from farm.results.output_file import check_output
from farm.scenario.calibration_keys import Calibration, read_calibration
from farm.scenario.file.document import document_text
from farm.terminal.cells import numbers
from farm.terminal.options import AsJson, Quiet, seconds_of
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing


def calibrate(
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    jobs: Annotated[int, typer.Option(min=0, max=64)] = 4,
    repeats: Annotated[int, typer.Option(min=1, max=100)] = 5,
    reference: Reference = "burn",
    threads: Annotated[int, typer.Option(min=1, max=MAX_THREADS, hidden=True)] = 4,
    cores: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
    alone: Annotated[str, typer.Option(hidden=True)] = "250ms",
    limit: Annotated[str, typer.Option(hidden=True)] = "1m",
    patience: Annotated[str, typer.Option(hidden=True)] = "0s",
    plot: Path | None = None,
    table: Annotated[Path | None, typer.Option(hidden=True)] = None,
    compare: Annotated[str | None, typer.Option(hidden=True)] = None,
    runs: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure this machine's slowdown under co-scheduled load, for scenarios.

    A reference job is timed beside 0, 1, 2, … heavy jobs; slowdown(k) = time(k) / time(0). Then
    some heavy and light jobs burn together, and the law that predicts them best is chosen: the
    table, or threads against measured cores. Use the saved file in a pool, as contention:
    {calibration: FILE}. Needs an otherwise idle machine.

    Args:
        out: Save the table to this .yaml or .json file.
        jobs: Maximum number of heavy jobs.
        repeats: Number of rounds, of which the median is taken.
        reference: pi: 5000 digits of π, one thread, as in the thesis; burn: one of the heavy jobs
            themselves.
        threads: Threads of each heavy job.
        cores: Number of processors to use. Default: all.
        alone: Approximate duration of the reference job alone.
        limit: Limit of the measurement, in real time.
        patience: Additional time to wait for an idle machine and to repeat disturbed measurements.
        plot: Draw the slowdown to this .svg or .html file.
        table: Use this saved calibration instead of measuring.
        compare: Moved to farm admin study calibration.
        runs: Moved to farm admin study calibration.

    Examples:
        farm admin calibrate                            the slowdown by 0 to 4 heavy jobs
        farm admin calibrate -o machine.yaml            the same, saved for a scenario
        farm admin calibrate --reference pi --jobs 2    digits of π beside two heavy jobs
    """
    if compare is not None or runs is not None:
        raise InputError(
            "--compare, --runs: found here; allowed: with a saved table, farm admin study "
            f"calibration --table FILE --scenario {compare or 'SCENARIO'} --runs {runs or 1}"
        )
    for path, kinds in ((out, (".yaml", ".yml", ".json")), (plot, (".svg", ".html"))):
        check_output(path, kinds, "--out" if path is out else "--plot")
    options = CalibrationOptions(
        jobs=jobs,
        repeats=repeats,
        threads=threads,
        reference=reference,
        alone=seconds_of(alone, "--alone"),
        cores=cores,
        limit=seconds_of(limit, "--limit"),
        patience=seconds_of(patience, "--patience", least=0.0),
    )
    burn_settings()  # so that errors of the environment are reported now
    silent = quiet or as_json
    found = _measured(options, silent=silent) if table is None else read_calibration(table)
    _save(found, out, plot)
    if as_json:
        print_json(found.model_dump(mode="json"), pretty=True)
        return
    _show_calibration(found)
    if table is not None and found.machine.processor not in ("", processor_name()):
        note(Text(f"Measured on another machine: {found.machine.processor}.", "yellow"))
    if out is not None:
        note(f"Saved to {out}; in a pool: contention: {{calibration: {out.name}}}")
    if plot is not None:
        note(f"Figure written to {plot}")


def _measured(options: CalibrationOptions, *, silent: bool) -> Calibration:
    with progress("measuring", counted=True, silent=silent) as update:
        update(total=options.repeats * (options.jobs + 1))

        def on_timing(timing: Timing) -> None:
            text = f"{timing.heavy} heavy jobs: {timing.seconds:.2f}s"
            update(advance=1, description=text)

        return calibration(options, on_timing)


def _save(found: Calibration, output: Path | None, plot: Path | None) -> None:
    data = found.model_dump(mode="json")
    if output is not None:
        as_json = output.suffix == ".json"
        text = json.dumps(data, indent=2) if as_json else document_text(data)
        with file_access(f"--out: {output}"):
            output.write_text(text, encoding="utf-8")
    if plot is not None:
        if not found.measurements:
            raise InputError("--plot: found a table without measurements; nothing to draw")
        write_figures(plot, [_figure(found)], "--plot")


def _figure(found: Calibration) -> Figure:
    """Return a figure of the slowdown over the number of heavy jobs, with the repeats' spread."""
    base = found.measurements[0].median_s
    return Figure(
        _title_of(found),
        {"median": [(one.heavy, one.slowdown) for one in found.measurements]},
        ("heavy jobs on the builder; bars: fastest to slowest repeat", "slowdown"),
        [(one.heavy, one.spread_s[0] / base, one.spread_s[1] / base) for one in found.measurements],
    )


def _title_of(found: Calibration) -> str:
    """Return what was measured."""
    what = {"pi": "5000 digits of π", "burn": "a heavy job"}.get(found.reference, "a job")
    cores = found.cores or found.machine.usable_cores
    where = f" on {cores:g} cores" if cores else ""
    return f"Slowdown of {what} beside heavy jobs of {found.threads} threads{where}"


def _show_calibration(found: Calibration) -> None:
    """Print the table."""
    if found.measurements:
        note(_measurement_table(found))
    note(f"slowdown: {list(found.slowdown)}")
    if (cores := found.measured_cores) is not None:
        note(f"threads: {{cores: {cores:g}}}")
    note(law_in_words(found))
    if found.rates:
        note(f"FARM_WORK_RATES={rates_text(found.rates)}")
    if warning := disturbed(found.machine.busy_with_others, "this table"):
        note(Text(warning, "yellow"))


def law_in_words(found: Calibration) -> str:
    """Return which law a pool takes from a calibration, and how far it and others are off."""
    chosen = f"law of a pool with this calibration: {found.law}"
    errors = {one.law: f"{one.error:+.1%}" for one in found.example}
    if found.law not in errors:
        return f"{chosen} (its error was not measured)"
    others = "".join(f", {law} {error}" for law, error in errors.items() if law != found.law)
    example = "heavy and light jobs that burnt together"
    return f"{chosen}, {errors[found.law]} off the mean time of {example}{others}"


def _measurement_table(found: Calibration) -> Listing:
    names = ("heavy jobs", "median s", "fastest s", "slowest s", "slowdown")
    rows = (
        (
            str(one.heavy),
            *(f"{s:.3f}" for s in (one.median_s, *one.spread_s)),
            f"{one.slowdown:.2f}",
        )
        for one in found.measurements
    )
    return Listing(numbers(*names), rows, title=_title_of(found))
