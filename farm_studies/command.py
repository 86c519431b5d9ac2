"""``farm admin study``: repeats a published experiment, or compares all autoscalers on one week."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.core.errors import InputError
from farm.results.figures.page import made_by, page, write_page
from farm.results.output_file import check_output
from farm.scenario import load_scenario
from farm.scenario.calibration_keys import read_calibration
from farm.terminal.cells import numbers, texts
from farm.terminal.options import AsJson, Quiet
from farm.terminal.output import counted_progress, note, print_json, progress
from farm.terminal.tables import Listing
from farm_studies import autoscalers, calibration, forecasts
from farm_studies.thesis.job_sets import MAX_SETS
from farm_studies.thesis.study import TITLE, Part, tables, thesis

#: the default number of job sets of the thesis
SETS = 20


class Study(StrEnum):
    """The studies."""

    THESIS = "thesis"
    AUTOSCALERS = "autoscalers"
    CALIBRATION = "calibration"
    FORECASTS = "forecasts"


#: the options that only some studies have
OPTIONS = {
    Study.THESIS: ("--runs", "--part", "--live", "--trace"),
    Study.AUTOSCALERS: ("--trace",),
    Study.CALIBRATION: ("--runs", "--table", "--scenario"),
    Study.FORECASTS: ("--runs",),
}


def study(
    which: Study,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="PAGE")] = None,
    runs: Annotated[int | None, typer.Option(min=1, max=MAX_SETS)] = None,
    part: list[Part] | None = None,
    live: Annotated[bool, typer.Option("--live")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    scenario: Annotated[Path | None, typer.Option(metavar="SCENARIO")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a published experiment and write its figures and tables to a page.

    Autoscalers: all provisioning algorithms on one week of a browser's CI, on a farm without
    faults and on one with faults: wait, cost, idle share, churn. It takes half a minute on two
    idle cores.

    Calibration: a scenario's burning jobs, run live and simulated under the table of farm
    calibrate and under other laws: how far is each from this machine?

    Forecasts: how true what jobs are told at submission is, on twelve loads: error, bias, how often
    ranges hold, by horizon, platform and level, against Launchpad's formula and two naive rules. It
    takes some minutes of processor time; with --runs 1 a third of that.

    Thesis: its claims, figures 4.1 and 5.1 to 5.12, tables 5.1 and 5.2, the result table of section
    5.4, and its future work, on common job sets. With the compiled loop a thousand sets take
    about fifteen seconds on two cores; --live takes about five minutes more.

    Args:
        which: The study.
        out: The page to write. Default: the name of the study with the ending .html.
        runs: Thesis: number of job sets, of which it has 1000. Default: 20. Calibration: number of
            live runs. Default: 1. Forecasts: number of seeds of each load. Default: 3.
        part: Thesis: only this part; repeatable.
        live: Thesis: also run a part of section 5.1 on a live farm.
        trace: Recorded jobs for the thesis's future work (default: of this project's own tests), or
            for the week of the autoscalers.
        table: Calibration: the file that farm admin calibrate -o saved.
        scenario: Calibration: a scenario whose jobs burn. Default: the example burning.

    Examples:
        farm admin study autoscalers  all algorithms on one week
        farm admin study thesis --runs 1000 -o thesis.html
        farm admin study forecasts
    """
    names = ("--runs", "--part", "--live", "--trace", "--table", "--scenario")
    given = (runs, part, live, trace, table, scenario)
    for name, value in zip(names, given, strict=True):
        if value and name not in OPTIONS[which]:
            allowed = ", ".join(other for other, has in OPTIONS.items() if name in has)
            raise InputError(f"{name}: found with {which}; allowed: with {allowed}")
    out = out or Path(f"{which}.html")
    check_output(out, [".html"], "--out")
    if which is Study.CALIBRATION:
        _calibration(
            out, table, scenario or Path("burning"), runs or 1, as_json=as_json, quiet=quiet
        )
        return
    if find_spec("matplotlib") is None:
        raise InputError(
            "farm admin study needs matplotlib, which is not installed here; allowed: pip install "
            "matplotlib"
        )
    if which is Study.FORECASTS:
        _forecasts(out, runs or forecasts.RUNS, as_json=as_json, quiet=quiet)
        return
    if which is Study.AUTOSCALERS:
        _autoscalers(out, trace, as_json=as_json, quiet=quiet)
    else:
        _thesis(out, runs or SETS, part or list(Part), live, trace, as_json=as_json, quiet=quiet)


def _thesis(
    out: Path,
    runs: int,
    parts: list[Part],
    live: bool,
    trace: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    if trace is not None and Part.FUTURE_WORK not in parts:
        raise InputError("--trace: found without the future work; allowed: with --part future-work")
    with progress("playing", silent=quiet or as_json) as update:
        found = thesis(
            runs,
            parts,
            live=live,
            trace=trace,
            on_step=lambda step: update(description=f"playing {step}"),
        )
    shown = {"tables": tables(found)}
    under = made_by() if Part.EVALUATION in parts else ""  # which begins with an answer
    write_page(out, page(TITLE, found, shown, under=under))
    if as_json:
        print_json({"which": "thesis", "runs": runs, **shown})
    elif not quiet:
        typer.echo(f"{sum(len(one.charts) for one in found)} figures written to {out}")


def _autoscalers(out: Path, trace: Path | None, *, as_json: bool, quiet: bool) -> None:
    with counted_progress("runs", silent=quiet) as show:
        found = autoscalers.play(trace, show)
    write_page(out, autoscalers.document(found))
    if as_json:
        print_json({"which": "autoscalers", "outcomes": found})
        return
    columns = (*texts(*autoscalers.HEAD[:2]), *numbers(*autoscalers.HEAD[2:]))
    note(Listing(columns, map(autoscalers.row_of, found), title=autoscalers.TITLE))
    if not quiet:
        note(f"wait against cost, and the table: {out}", err=True)


def _forecasts(out: Path, runs: int, *, as_json: bool, quiet: bool) -> None:
    with progress("playing", silent=quiet or as_json) as update:
        found = forecasts.compare(runs, lambda load: update(description=f"playing {load}"))
    write_page(out, forecasts.document(found))
    if as_json:
        print_json({"which": "forecasts", "outcomes": found})
        return
    columns = (*texts(*forecasts.HEAD[:2]), *numbers(*forecasts.HEAD[2:]))
    parts = (*texts(forecasts.PART_HEAD[0]), *numbers(*forecasts.PART_HEAD[1:]))
    note(forecasts.answer(found))
    note(Listing(columns, map(forecasts.row_of, found), title=forecasts.TITLE))
    note(Listing(parts, forecasts.parts_of(found), title="By horizon, platform and level"))
    if not quiet:
        note(f"the same on a page: {out}", err=True)


def _calibration(
    out: Path, table: Path | None, scenario: Path, runs: int, *, as_json: bool, quiet: bool
) -> None:
    if table is None:
        raise InputError("--table: not given; allowed: the file that farm admin calibrate -o saved")
    found, played = read_calibration(table), load_scenario(scenario)
    with progress("measuring a core", silent=quiet or as_json) as update:

        def begins(number: int) -> None:
            update(description=f"live run {number} of {runs}")

        check = calibration.compare(played, found, runs=runs, begins=begins)
    write_page(out, calibration.document(check))
    if as_json:
        print_json({"which": "calibration", **msgspec.to_builtins(check)}, pretty=True)
        return
    columns = (*texts(calibration.HEAD[0]), *numbers(*calibration.HEAD[1:]))
    note(calibration.answer(check))
    caption = "\n".join(calibration.remarks(check))
    note(Listing(columns, calibration.rows(check), title=calibration.title(check), caption=caption))
    if not quiet:
        note(f"the same on a page: {out}", err=True)
