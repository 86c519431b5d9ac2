"""What ``farm calibrate`` found, as tables for people and as data for machines."""

from __future__ import annotations

import msgspec
from rich.text import Text

from farm.app.calibrating.calibration import QUIET
from farm.app.calibrating.calibration_check import Check
from farm.app.calibrating.work_rates import rates_text
from farm.scenario.calibration import Calibration
from farm.terminal.output import note
from farm.terminal.tables import Listing, numbers, texts


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


def show_calibration(found: Calibration, check: Check | None) -> None:
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
        told = f"Others kept {others:g} processors busy during it: do not trust {what}."
        note(Text(told, "yellow"))


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
    return Listing(numbers(*names), rows, title=title_of(found))


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
    told = f"live runs: {runs}; work of a job: {work:.2f}s on average, it took {took:.2f}s"
    if check.burnt is None:
        return told
    return (
        f"{told}\na second of work cost {check.burnt:.2f}s of processor time: not 1 where cores "
        "are slower in company, or were faster or slower when their rates were measured"
    )
