"""``farm audit``: whether a recorded run makes sense, and would be decided the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.assembly import make_scheduler
from farm.cli.estimating import Estimating
from farm.cli.options import AsJson, Quiet
from farm.core.errors import InputError, InvariantError
from farm.core.scheduler import Scheduler
from farm.results.audit.recorded import audit_run
from farm.results.run_directory import SCENARIO, Run, load_run
from farm.scenario import load_scenario


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a recorded run: each job's story makes sense, and replayed it goes the same way.

    Exit code 1, with the first thing that is wrong, if not.
    """
    recorded = load_run(run, unfinished=True)
    why = ""
    try:
        scheduler = _scheduler_like(recorded)
    except InputError as error:
        scheduler, why = None, str(error)
    found = audit_run(recorded, scheduler)
    if as_json:
        told = msgspec.structs.asdict(found) | {"replayed": scheduler is not None}
        typer.echo(msgspec.json.encode(told).decode())
        if found.wrong:
            raise typer.Exit(1)
    if found.wrong:
        raise InvariantError(f"{run}: {found.wrong}")
    if not quiet and not as_json:
        replayed = "replayed the same" if scheduler else f"not replayed ({why})"
        typer.echo(f"{run}: sound: {found.events:,} events, {found.jobs:,} jobs; {replayed}")


def _scheduler_like(run: Run) -> Scheduler:
    """Return a fresh scheduler like the run's own; raises InputError if there is no making it."""
    scenario = load_scenario(run.path / SCENARIO)
    estimator = Estimating(scenario, live=run.meta.world == "live").estimator
    return make_scheduler(scenario, estimator=estimator)
