"""``farm calibrate``: measures how much heavy jobs slow others down on this machine."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.text import Text

from farm.app.calibrating.calibration import (
    QUIET,
    Plan,
    Timing,
    calibration,
    processor_name,
)
from farm.app.calibrating.calibration_check import Check, check_burning, check_table
from farm.app.calibrating.work_rates import burn_settings, rates_text
from farm.core.errors import InputError, file_access
from farm.results.figures.lines import Figure, write_figures
from farm.results.output_file import check_output
from farm.scenario import load_scenario
from farm.scenario.calibration import Calibration, Read, read_calibration
from farm.scenario.file.document import document_text
from farm.terminal.options import AsJson, Quiet, seconds_of
from farm.terminal.output import note, print_json, progress
from farm.terminal.tables import Listing, numbers, texts


class ReferenceJob(StrEnum):
    """The job that is timed."""

    pi = "pi"
    burn = "burn"


def calibrate(
    output: Annotated[Path | None, typer.Option("--output", "-o")] = None,
    jobs: Annotated[int, typer.Option(min=0, max=64)] = 4,
    repeats: Annotated[int, typer.Option(min=1, max=100)] = 5,
    reference: ReferenceJob = ReferenceJob.pi,
    threads: Annotated[int, typer.Option(min=1, max=256)] = 4,
    cores: Annotated[int | None, typer.Option(min=1)] = None,
    alone: str = "250ms",
    limit: str = "1m",
    patience: str = "0s",
    plot: Path | None = None,
    table: Path | None = None,
    compare: Annotated[Path | None, typer.Option(metavar="SCENARIO")] = None,
    runs: Annotated[int, typer.Option(min=1, max=100)] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure this machine's slowdown under co-scheduled load, for scenarios.

    A reference job is timed beside 0, 1, 2, … heavy jobs; slowdown(k) = time(k) / time(0). Use the
    saved file in a pool, as contention: {calibration: FILE}. Needs an otherwise idle machine.

    Args:
        output: Save the table to this .yaml or .json file.
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
        compare: Run this scenario's burning jobs live, simulate them with the table, and show the
            difference.
        runs: Number of live runs for --compare.
    """
    for path, kinds in ((output, (".yaml", ".yml", ".json")), (plot, (".svg", ".html"))):
        check_output(path, kinds, "--output" if path is output else "--plot")
    plan = Plan(
        jobs=jobs,
        repeats=repeats,
        threads=threads,
        reference=reference.value,
        alone=seconds_of(alone, "--alone"),
        cores=cores,
        limit=seconds_of(limit, "--limit"),
        patience=seconds_of(patience, "--patience", least=0.0),
    )
    if compare is not None:
        check_burning(load_scenario(compare, calibration=_unless_ours(output)))
    burn_settings()  # so that errors of the environment are reported now
    silent = quiet or as_json
    found = _measured(plan, silent=silent) if table is None else read_calibration(table)
    _save(found, output, plot)
    check = None if compare is None else _checked(compare, found, runs, silent=silent)
    if as_json:
        print_json(_as_data(found, check), pretty=True)
        return
    _show_calibration(found, check)
    if table is not None and found.machine.processor not in ("", processor_name()):
        note(Text(f"Measured on another machine: {found.machine.processor}.", "yellow"))
    if output is not None:
        note(f"Saved to {output}; in a pool: contention: {{calibration: {output.name}}}")
    if plot is not None:
        note(f"Figure written to {plot}")


def _unless_ours(output: Path | None) -> Read:
    """Return what reads the calibrations of a scenario, but not the one that is still to come."""

    def read(path: Path) -> Calibration:
        if output is not None and path.resolve() == output.resolve():
            return Calibration(slowdown=(1.0,))
        return read_calibration(path)

    return read


def _checked(path: Path, found: Calibration, runs: int, *, silent: bool) -> Check:
    with Console(stderr=True, quiet=silent).status("measuring a core") as status:
        return check_table(
            load_scenario(path),
            found.slowdown,
            cores=found.measured_cores,
            runs=runs,
            rates=found.rates,
            begins=lambda number: status.update(f"live run {number} of {runs}"),
        )


def _measured(plan: Plan, *, silent: bool) -> Calibration:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with progress("measuring", *columns, silent=silent) as update:
        update(total=plan.repeats * (plan.jobs + 1))

        def on_timing(timing: Timing) -> None:
            text = f"{timing.heavy} heavy jobs: {timing.seconds:.2f}s"
            update(advance=1, description=text)

        return calibration(plan, on_timing)


def _save(found: Calibration, output: Path | None, plot: Path | None) -> None:
    data = found.model_dump(mode="json")
    if output is not None:
        as_json = output.suffix == ".json"
        text = json.dumps(data, indent=2) if as_json else document_text(data)
        with file_access(f"--output: {output}"):
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


def _as_data(found: Calibration, check: Check | None) -> dict[str, object]:
    """Return the calibration as its file has it, and the comparison under ``compare``."""
    data: dict[str, object] = found.model_dump(mode="json")
    if check is not None:
        data["compare"] = msgspec.to_builtins(check)
    return data


def _title_of(found: Calibration) -> str:
    """Return what was measured."""
    what = {"pi": "5000 digits of π", "burn": "a heavy job"}.get(found.reference, "a job")
    cores = found.cores or found.machine.usable_cores
    where = f" on {cores:g} cores" if cores else ""
    return f"Slowdown of {what} beside heavy jobs of {found.threads} threads{where}"


def _show_calibration(found: Calibration, check: Check | None) -> None:
    """Print the table, and how far simulations under it are from the machine."""
    if found.measurements:
        note(_measurement_table(found))
    note(f"slowdown: {list(found.slowdown)}")
    if (cores := found.measured_cores) is not None:
        note(f"threads: {{cores: {cores:g}}}")
    if found.rates:
        note(f"FARM_WORK_RATES={rates_text(found.rates)}")
    _warn(found.machine.busy_with_others, "this table")
    if check is not None:
        note(_check_table(check))
        _warn(check.busy_with_others, "the live runs")


def _warn(others: float, what: str) -> None:
    if others > QUIET:
        text = f"Others kept {others:g} processors busy during it: do not trust {what}."
        note(Text(text, "yellow"))


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


def _check_table(check: Check) -> Listing:
    rows = [("live", f"{check.live_mean_response_time_s:.2f}", "", "", "")]
    for law in check.laws:
        burnt = law.mean_difference_as_burnt
        rows.append(
            (
                f"simulated, {law.law}",
                f"{law.mean_response_time_s:.2f}",
                f"{law.mean_difference:+.1%}",
                f"{law.median_job_difference:.1%}",
                "" if burnt is None else f"{burnt:+.1%}",
            )
        )
    heads = ("mean s", "off by", "median job off by", "off by, as burnt")
    return Listing(
        (*texts("mean response time"), *numbers(*heads)),
        rows,
        title=f"{check.scenario}: {check.jobs} burning jobs",
        caption=_caption(check),
    )


def _caption(check: Check) -> str:
    runs = ", ".join(
        f"{seconds:.2f}s" if burnt is None else f"{seconds:.2f}s at {burnt:.2f}"
        for seconds, burnt in zip(check.runs_s, check.burnt_s, strict=True)
    )
    work, took = check.mean_work_s, check.live_mean_service_time_s
    text = f"live runs: {runs}; work of a job: {work:.2f}s on average, it took {took:.2f}s"
    if check.burnt is None:
        return text
    return (
        f"{text}\na second of work cost {check.burnt:.2f}s of processor time: not 1 where cores "
        "are slower in company, or were faster or slower when their rates were measured"
    )
