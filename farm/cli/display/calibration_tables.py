"""What ``farm calibrate`` found, as tables for people and as data for machines."""

from __future__ import annotations

import msgspec
from rich.table import Table

from farm.app.calibrating.calibration import QUIET, rates_text
from farm.app.calibrating.calibration_check import Check
from farm.results.figures.calibration import text_plot
from farm.scenario.calibration import Calibration
from farm.terminal.console import FarmConsole


def as_data(found: Calibration, check: Check | None) -> dict[str, object]:
    """Return the calibration as its file has it, and the comparison under ``compare``."""
    data: dict[str, object] = found.model_dump(mode="json")
    if check is not None:
        data["compare"] = msgspec.to_builtins(check)
    return data


def title_of(found: Calibration) -> str:
    """Return what was measured."""
    what = {"pi": "5000 digits of π", "burn": "a heavy job"}.get(found.reference, "a job")
    cores = found.cores or found.machine.usable_cores
    where = f" on {cores:g} cores" if cores else ""
    return f"Slowdown of {what} beside heavy jobs of {found.threads} threads{where}"


def show_calibration(found: Calibration, check: Check | None, *, quiet: bool) -> None:
    """Print the table, a plot, and how far simulations under it are from the machine."""
    console = FarmConsole()
    if found.measurements:
        console.print(_measurement_table(found))
    if not quiet and found.measurements:
        console.print(text_plot(found.measurements), markup=False, soft_wrap=True)
    console.print(f"slowdown: {list(found.slowdown)}", soft_wrap=True, markup=False)
    if (cores := found.measured_cores) is not None:
        console.print(f"threads: {{cores: {cores:g}}}", soft_wrap=True, markup=False)
    if found.rates:
        console.print(f"FARM_WORK_RATES={rates_text(found.rates)}", soft_wrap=True)
    _warn(console, found.machine.busy_with_others, "this table")
    if check is not None:
        console.print(_check_table(check))
        _warn(console, check.busy_with_others, "the live runs")


def _warn(console: FarmConsole, others: float, what: str) -> None:
    if others > QUIET:
        told = f"Others kept {others:g} processors busy during it: do not trust {what}."
        console.print(told, style="yellow", soft_wrap=True)


def _measurement_table(found: Calibration) -> Table:
    table = Table(title=title_of(found))
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
        caption=_caption(check),
    )
    table.add_column("", no_wrap=True)
    for name in ("mean s", "off by", "median job off by", "off by, as burnt"):
        table.add_column(name, justify="right")
    table.add_row("live", f"{check.live_mean_response_time_s:.2f}", "", "", "")
    for law in check.laws:
        cells = (f"{law.mean_response_time_s:.2f}", f"{law.mean_difference:+.1%}")
        burnt = law.mean_difference_as_burnt
        as_burnt = "" if burnt is None else f"{burnt:+.1%}"
        name = f"simulated, {law.law}"
        table.add_row(name, *cells, f"{law.median_job_difference:.1%}", as_burnt)
    return table


def _caption(check: Check) -> str:
    runs = ", ".join(
        f"{seconds:.2f} s" if burnt is None else f"{seconds:.2f} s at {burnt:.2f}"
        for seconds, burnt in zip(check.runs_s, check.burnt_s, strict=True)
    )
    work, took = check.mean_work_s, check.live_mean_service_time_s
    told = f"live runs: {runs}; work of a job: {work:.2f} s on average, it took {took:.2f} s"
    if check.burnt is None:
        return told
    return (
        f"{told}\na second of work cost {check.burnt:.2f} s of processor time: not 1 where cores "
        "are slower in company, or were faster or slower when their rates were measured"
    )
