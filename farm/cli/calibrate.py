"""``farm calibrate``: measure how much heavy jobs slow others down on this machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from farm.cli.burning import burn_settings
from farm.cli.calibration_check import Check, check_table
from farm.cli.calibration_figure import calibration_html, calibration_svg, text_plot
from farm.cli.options import AsJson, Quiet
from farm.core.errors import InputError
from farm.scenario import load_scenario
from farm.scenario.calibration import Calibration, Measurement, read_calibration
from farm.units import format_duration, parse_duration
from workers.calibration import (
    QUIET,
    Plan,
    Timing,
    measure,
    never_falling,
    quiet_times,
    slowdowns,
    work_rates,
)
from workers.limits import usable_cores


class ReferenceJob(StrEnum):
    """What is timed."""

    pi = "pi"
    burn = "burn"


def calibrate(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Save the table to this .yaml or .json file."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Up to how many heavy jobs beside each other.", min=0, max=64)
    ] = 4,
    repeats: Annotated[int, typer.Option(help="Rounds; medians count.", min=1, max=100)] = 5,
    reference: Annotated[
        ReferenceJob,
        typer.Option(
            help="pi: 5000 digits of π, one thread, as in the thesis; "
            "burn: one of the heavy jobs themselves."
        ),
    ] = ReferenceJob.pi,
    threads: Annotated[int, typer.Option(help="Of each heavy job.", min=1, max=256)] = 4,
    cores: Annotated[
        int | None,
        typer.Option(help="As on a builder with so many; absent: all there are.", min=1),
    ] = None,
    alone: Annotated[
        str, typer.Option(help="How long the reference job takes alone, about.")
    ] = "250ms",
    limit: Annotated[str, typer.Option(help="Stop measuring after so much real time.")] = "1m",
    patience: Annotated[
        str,
        typer.Option(
            help="Time, beyond the limit, for waiting until others leave the machine alone and "
            "repeating what they disturbed."
        ),
    ] = "0s",
    plot: Annotated[
        Path | None, typer.Option(help="Draw the slowdown in this .svg or .html file.")
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Take this saved calibration instead of measuring.")
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="SCENARIO",
            help="Run this scenario's burning jobs live, simulate them with the table, and say "
            "how far the two are apart.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Live runs of --compare.", min=1, max=100)] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure this machine's slowdown under co-scheduled load: a table that a scenario can use.

    A reference job is timed beside 0, 1, 2, … heavy jobs; slowdown(k) = time(k) / time(0). Use the
    saved file as contention: {calibration: FILE} in a pool. Needs a machine that is otherwise idle.
    """
    for path, kinds in ((output, (".yaml", ".yml", ".json")), (plot, (".svg", ".html"))):
        _check_output(path, kinds, "--output" if path is output else "--plot")
    scenario = None if compare is None else load_scenario(compare)
    plan = Plan(
        jobs=jobs,
        repeats=repeats,
        threads=threads,
        reference=reference.value,
        alone=_seconds(alone, "--alone"),
        cores=cores,
        limit=_seconds(limit, "--limit"),
        patience=_seconds(patience, "--patience", least=0.0),
    )
    silent = quiet or as_json
    found = _measured(plan, silent=silent) if table is None else read_calibration(table)
    _save(found, output, plot)
    check = None if scenario is None else check_table(scenario, found.slowdown, runs=runs)
    if as_json:
        typer.echo(json.dumps(_as_json(found, check), indent=2))
        return
    _show(found, check, quiet=quiet)
    console = Console(highlight=False, soft_wrap=True)
    if output is not None:
        console.print(f"Saved to {output}; in a pool: contention: {{calibration: {output.name}}}")
    if plot is not None:
        console.print(f"Figure written to {plot}")


def _measured(plan: Plan, *, silent: bool) -> Calibration:
    with ExitStack() as stack:
        heard = None if silent else stack.enter_context(_Ticker(plan))
        rates = work_rates(burn_settings())
        timings = measure(msgspec.structs.replace(plan, rates=rates), heard or (lambda _: None))
    times = quiet_times(timings)
    factors = slowdowns(times)
    return Calibration(
        slowdown=tuple(never_falling(factors)),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(timings),
        reference=plan.reference,
        threads=plan.threads,
        cores=plan.cores or 0,
        repeats=max(timing.round for timing in timings) + 1,
        rates={name: round(rate, 1) for name, rate in rates.items()},
        measurements=tuple(
            Measurement(
                heavy=heavy,
                median_s=round(statistics.median(seconds), 6),
                spread_s=(round(min(seconds), 6), round(max(seconds), 6)),
                slowdown=round(factor, 4),
                times_s=tuple(round(one, 6) for one in seconds),
            )
            for (heavy, seconds), factor in zip(times.items(), factors, strict=True)
        ),
    )


def _machine(timings: list[Timing]) -> dict[str, object]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "usable_cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "busy_with_others": round(statistics.median(one.others for one in timings), 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _seconds(text: str, option: str, *, least: float = 1e-3) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None
    if seconds < least:
        raise InputError(f"{option}: found {text}; allowed: {format_duration(least)} or more")
    return seconds


def _check_output(path: Path | None, kinds: tuple[str, ...], option: str) -> None:
    """Complain before measuring for half a minute, not after."""
    if path is None:
        return
    if path.suffix not in kinds:
        raise InputError(
            f"{option}: found {path.name!r}; allowed: a name that ends in {' or '.join(kinds)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"{option}: cannot write {path}: no such directory")


def _save(found: Calibration, output: Path | None, plot: Path | None) -> None:
    data = msgspec.to_builtins(found)
    if output is not None:
        as_text = json.dumps(data, indent=2) if output.suffix == ".json" else _as_yaml(data)
        _write(output, as_text, "--output")
    if plot is not None:
        if not found.measurements:
            raise InputError("--plot: found a table without measurements; nothing to draw")
        draw = calibration_svg if plot.suffix == ".svg" else calibration_html
        _write(plot, draw(found.measurements, _title(found)), "--plot")


def _as_yaml(data: dict[str, object]) -> str:
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return text


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option}: cannot write {path}: {error.strerror}") from error


def _title(found: Calibration) -> str:
    what = {"pi": "5000 digits of π", "burn": "a heavy job"}.get(found.reference, "a job")
    cores = found.cores or found.machine.get("usable_cores", "?")
    return f"Slowdown of {what} beside heavy jobs of {found.threads} threads on {cores:g} cores"


def _as_json(found: Calibration, check: Check | None) -> dict[str, object]:
    data: dict[str, object] = {**msgspec.to_builtins(found)}
    if check is not None:
        data["compare"] = msgspec.to_builtins(check)
    return data


def _show(found: Calibration, check: Check | None, *, quiet: bool) -> None:
    console = Console(highlight=False)
    if found.measurements:
        console.print(_measurement_table(found))
    if not quiet and found.measurements:
        console.print(text_plot(found.measurements), markup=False, soft_wrap=True)
    console.print(f"slowdown: {list(found.slowdown)}", soft_wrap=True)
    others = found.machine.get("busy_with_others", 0)
    if others > QUIET:
        console.print(
            f"Others kept {others:g} processors busy meanwhile: do not trust this table.",
            style="yellow",
            soft_wrap=True,
        )
    if check is not None:
        console.print(_check_table(check))


def _measurement_table(found: Calibration) -> Table:
    table = Table(title=_title(found))
    for name in ("heavy jobs", "median s", "fastest s", "slowest s", "slowdown"):
        table.add_column(name, justify="right")
    for one in found.measurements:
        low, high = one.spread_s
        cells = (f"{one.median_s:.3f}", f"{low:.3f}", f"{high:.3f}", f"{one.slowdown:.2f}")
        table.add_row(str(one.heavy), *cells)
    return table


def _check_table(check: Check) -> Table:
    table = Table(
        title=f"{check.scenario}: {check.jobs} burning jobs, mean response time",
        caption=f"work of a job: {check.mean_work_s:.2f} s on average; it took "
        f"{check.live_mean_service_time_s:.2f} s live",
    )
    table.add_column("")
    for name in ("mean s", "off by", "median job off by"):
        table.add_column(name, justify="right")
    table.add_row("live", f"{check.live_mean_response_time_s:.2f}", "", "")
    for law in check.laws:
        off = f"{law.mean_difference:+.1%}"
        job = f"{law.median_job_difference:.1%}"
        table.add_row(f"simulated, {law.law}", f"{law.mean_response_time_s:.2f}", off, job)
    return table


class _Ticker:
    """Shows how many measurements are done."""

    def __init__(self, plan: Plan) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("measuring", total=plan.repeats * (plan.jobs + 1))

    def __enter__(self) -> Callable[[Timing], None]:
        self._progress.start()
        return self._heard

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _heard(self, timing: Timing) -> None:
        told = f"{timing.heavy} heavy jobs: {timing.seconds:.2f} s"
        self._progress.update(self._task, advance=1, description=told)
