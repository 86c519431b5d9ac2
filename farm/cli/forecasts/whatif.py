"""``farm whatif``: forecast a farm from its present state, with and without a change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.forecasts.what_if import JobForecast, PlatformForecast, WhatIf, what_if
from farm.app.long_running.snapshots import image_from
from farm.results.formatting import sentence
from farm.scenario import TwinErrors
from farm.sim.rollouts.rollout import ROLLOUTS
from farm.terminal.cells import numbers, texts
from farm.terminal.error_messages import on_interrupt
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Overrides, Redis
from farm.terminal.output import note, print_json, shared_progress
from farm.terminal.tables import Listing
from farm.units import format_roughly

#: what the title says of later jobs
_ARRIVING = {
    "none": "",
    "workload": ", with the workload to come",
    "lately": ", jobs arriving as lately",
}


def whatif(
    source: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None,
    sets: Overrides = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    count: Annotated[int, typer.Option("--rollouts", min=1, max=100_000)] = ROLLOUTS,
    seed: int = 1,
    arrivals: Annotated[bool | None, typer.Option("--arrivals/--no-arrivals")] = None,
    limit: Annotated[int, typer.Option(min=0)] = 10,
    as_json: AsJson = False,
) -> None:
    """Simulate a farm from its present state, with and without a change.

    Shows when each waiting job will be dispatched. Every rollout draws run times from the history
    of the runtime estimator. With --set, the changed farm is simulated too, with the same
    random numbers for each job, and shown beside it.

    Args:
        source: A snapshot or state file; - reads stdin. Default: the live farm.
        count: Number of rollouts of each farm.
        seed: Seed of the rollouts.
        arrivals: Continue the scenario's workload, or let nothing arrive. Default: as lately, if
            later jobs can overtake or a provisioner goes by demand.
        limit: Number of slowest jobs shown; 0: all.

    Examples:
        farm whatif                                   when will each waiting job start?
        farm whatif --set pools.linux.builders=+3     and with three more builders?
        farm whatif now.json --arrivals --policy sjf  from a file of farm status --save
    """
    image = image_from(source, redis, folder, sets or ())
    again = "nothing is kept; the same command begins again, and fewer --rollouts take less time"
    with on_interrupt(lambda: again), shared_progress("simulating", silent=as_json) as tell:
        found = what_if(
            image, sets or (), count=count, seed=seed, arrivals=arrivals, limit=limit, on_share=tell
        )
    if as_json:
        print_json(found)
        return
    note(sentence(found.answer), _platforms(found), _slowest(found))
    if found.twin is not None:
        note(str(TwinErrors(**found.twin)))


def _platforms(found: WhatIf) -> Listing:
    return Listing(
        (
            *texts("platform"),
            *numbers("waiting", "mean wait", "last job P50", "last job P90", *_verdict(found)),
        ),
        [(one.platform, str(one.waiting), *_cells(found, one)) for one in found.platforms],
        title=f"Waiting jobs by platform ({found.rollouts} rollouts{_ARRIVING[found.arrivals]})",
        first_to_go=("waiting", "last job P90", "last job P50"),
    )


def _slowest(found: WhatIf) -> Listing:
    """Return a table of the jobs that wait longest without the change."""
    waiting = sum(one.waiting for one in found.platforms)
    return Listing(
        (*texts("job", "platform"), *numbers("P50", "P90", "mean", *_verdict(found))),
        [(one.job, one.platform, *_cells(found, one)) for one in found.jobs],
        title=f"The {len(found.jobs)} slowest of {waiting} jobs: time to dispatch",
        first_to_go=("platform", "mean", "P50"),
    )


def _verdict(found: WhatIf) -> list[str]:
    """Return the heading of the verdicts on a twin's means, if there are any."""
    return ["verdict"] if found.twin is not None and found.changes else []


def _cells(found: WhatIf, one: PlatformForecast | JobForecast) -> list[str]:
    """Return each number without and with the change."""
    futures = [one.now] if one.then is None else [one.now, one.then]
    spans = [" → ".join(_span(future[name]) for future in futures) for name in one.now]
    return [*spans, *([one.verdict or ""] if _verdict(found) else [])]


def _span(seconds: float | None) -> str:
    return "never" if seconds is None else format_roughly(seconds)
