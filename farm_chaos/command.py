"""``farm admin chaos``: injects faults into a separate farm and audits every job."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.core.errors import InputError
from farm.scenario import load_scenario
from farm.terminal.cells import numbers, texts
from farm.terminal.console import FarmConsole
from farm.terminal.options import AsJson, Overrides, Quiet, ScenarioFile
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing
from farm.units import format_roughly
from farm_chaos.campaign import Campaign, CampaignPlan, faults_done
from farm_chaos.machine import kinds_here
from farm_chaos.plan import FaultKind, plan
from farm_chaos.verdict import Verdict


def chaos(
    scenario: ScenarioFile,
    sets: Overrides = None,
    faults: Annotated[int, typer.Option(min=1)] = 60,
    seed: int = 1,
    jobs: Annotated[int, typer.Option(min=1)] = 2000,
    only: Annotated[list[FaultKind] | None, typer.Option(metavar="KIND")] = None,
    keep: Annotated[Path | None, typer.Option(metavar="DIR")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Start a separate farm, inject faults by a seeded plan, and audit every job.

    Processes are killed, stopped and restarted, connections are cut, writes refused, invalid
    and forged messages sent, and the server's data removed or cut short; clients ask without end,
    read no answers, or contend for one job. Exit code 1 if a job was lost, ended twice, ran twice
    at the same time or is stuck, if a client was told otherwise than it was, if a process was left
    behind, or if the farm did not recover.

    Args:
        faults: Number of faults.
        seed: Seed of the plan: which faults, in which order, against what.
        jobs: Number of jobs, spread over the faults (at least one each).
        only: Faults of this kind; repeatable. Default: all.
        keep: Keep the farm's files in this new directory.
        resume: Continue the campaign that was interrupted in this directory, with the same options.

    Examples:
        farm admin chaos quickstart  sixty faults, two thousand jobs
        farm admin chaos quickstart --only kill-host --keep kept
        farm admin chaos quickstart --only kill-host --resume kept
    """
    loaded = load_scenario(scenario, sets or ())
    kinds = kinds_here(only or ())
    planned = plan(faults, seed, kinds)
    todo = CampaignPlan(loaded.to_yaml(), seed, faults, jobs, kinds)
    if keep is not None and resume is not None:
        raise InputError("--keep, --resume: found both; allowed: --resume DIR, which keeps DIR too")
    console = FarmConsole(stderr=True)
    console.quiet = quiet
    if left_out := set(only or FaultKind) - set(kinds):
        names = ", ".join(sorted(kind.value for kind in left_out))
        console.print(f"skipped, because they are not possible on this machine: {names}")
    with tempfile.TemporaryDirectory(prefix="farm-chaos-") as temporary:
        folder = resume or keep or Path(temporary)
        if resume is not None:
            faults_done(resume, todo)  # there is such a campaign
        else:
            folder.mkdir(parents=True, exist_ok=keep is None)
        with console.status("starting the farm") as line:
            verdict = Campaign(loaded, folder, todo, line.update).run(planned, jobs)
    if as_json:
        print_json(msgspec.to_builtins(verdict) | {"holds": verdict.holds, "flaws": verdict.flaws})
    else:
        _print(verdict)
    raise typer.Exit(0 if verdict.holds else 1)


def _print(verdict: Verdict) -> None:
    rows = (
        (kind, str(times.faults), format_roughly(times.median), format_roughly(times.max))
        for kind, times in verdict.recoveries.items()
    )
    columns = (*texts("fault"), *numbers("times", "median", "max"))
    note(Listing(columns, rows, title="recoveries"))
    outcomes = ", ".join(f"{count:,} {name}" for name, count in verdict.outcomes.items())
    note(f"{verdict.submitted:,} jobs submitted, {verdict.ended:,} ended: {outcomes}")
    if verdict.gave_up:
        note(f"the farm ended by itself {verdict.gave_up} times, and was started again")
    if verdict.log:
        note(f"event log: {verdict.log}")
    flaws = (f"{count:,} {name}" for name, count in verdict.flaws.items())
    note(", ".join(flaws))
