"""``farm estimate``: when the waiting jobs of a farm will be dispatched."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from farm.app.long_running.snapshots import view_from
from farm.cli.forecasts.estimate_tables import explanation, queue_table
from farm.core.errors import StateError, nearest
from farm.core.model import Platform
from farm.forecasts.dispatch.estimate import estimate_at
from farm.forecasts.dispatch.rules import RULES
from farm.forecasts.dispatch.view import FarmView, JobView
from farm.forecasts.dispatch.whole_queue import QueueEstimates, estimate_queue
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note


class RuleSet(StrEnum):
    """The names of ``RULES``, for the command line."""

    PAGE = "page"
    LAUNCHPAD_2010 = "launchpad-2010"
    LAUNCHPAD = "launchpad"
    FARM = "farm"


def estimate(
    state: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STATE.json]",
            help="A state file or snapshot; - reads stdin. Default: the live farm.",
        ),
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option("--job", help="Only this job, by name; repeatable. Default: all jobs."),
    ] = None,
    rules: Annotated[
        RuleSet,
        typer.Option(help="The rule set (see docs/explanation/dispatch-estimates.md)."),
    ] = RuleSet.LAUNCHPAD,
    as_json: AsJson = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the arithmetic behind each estimate.")
    ] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    limit: Annotated[
        int, typer.Option(min=0, help="Maximum number of rows, or of jobs explained; 0: no limit.")
    ] = 50,
) -> None:
    """Estimate when waiting jobs will be dispatched.

    Each estimate is time to next builder + lead time; adding its run time gives the end of the job.
    The state is a JSON file of builders and jobs, such as farm snapshot prints, or the present
    state of a live farm.
    """
    view, growing = view_from(state, redis, folder)
    if growing:
        pools = ", ".join(growing)
        note(f"builders still to come to {pools} are not counted: see farm whatif", err=True)
    chosen = RULES[rules.value]
    wanted = [
        _job_named(view, name, "the farm" if state is None else str(state)) for name in job or ()
    ]
    for each in wanted:
        _mention_unknown_processor(each, view)
    jobs, queue = estimate_queue(view, chosen)
    place_of = {each.id: place for place, each in enumerate(jobs)}
    places = [place_of[each.id] for each in wanted] or list(range(len(jobs)))
    if as_json:
        _print_json(jobs, queue, places, explain=explain)
    elif wanted or explain:
        _print_explanations(jobs, queue, places, limit)
    else:
        note(queue_table(jobs, queue, limit or len(jobs)))


def _job_named(view: FarmView, name: str, source: str) -> JobView:
    for job in view.jobs:
        if job.name == name:
            if job.status != "waiting":
                found = f"{name!r}, which is {job.status}"
                raise StateError(f"{source}: --job: found {found}; allowed: a waiting job")
            return job
    near = nearest(name, [job.name for job in view.jobs])
    hint = f"; did you mean {near!r}?" if near else ""
    raise StateError(f"{source}: --job: found {name!r}; allowed: a job of the file{hint}")


def _mention_unknown_processor(job: JobView, view: FarmView) -> None:
    known = sorted({processor for builder in view.builders for processor in builder.processors})
    if job.processor is not None and job.processor not in known:
        typer.echo(
            f"{job.name}: no builder of the file has processor {job.processor!r}"
            f" (they have: {', '.join(known) or 'none'}), so it has no estimate",
            err=True,
        )


def _print_json(
    jobs: list[JobView], queue: QueueEstimates, places: list[int], *, explain: bool
) -> None:
    # written row by row: the lists of predecessors grow with the square of the queue
    separator = "["
    for place in places:
        row = _as_json(jobs, queue, place, explain)
        typer.echo(separator + msgspec.json.encode(row).decode(), nl=False)
        separator = ",\n "
    typer.echo("]" if separator != "[" else "[]")


def _print_explanations(
    jobs: list[JobView], queue: QueueEstimates, places: list[int], limit: int
) -> None:
    for place in places[: limit or len(places)]:
        found = estimate_at(jobs, queue, place)
        note(explanation(found, queue.rules, jobs[place].duration_s))
    if limit and len(places) > limit:
        note(f"… and {len(places) - limit} more (--limit 0 shows all)")


def _as_json(
    jobs: list[JobView], queue: QueueEstimates, place: int, explain: bool
) -> dict[str, Any]:
    job, estimate = jobs[place], estimate_at(jobs, queue, place)
    row: dict[str, Any] = {
        "job": estimate.job,
        "predecessors": [jobs[other].name for other in queue.predecessor_places(place)],
        "pool_for_job": estimate.pool_for_job,
        "head_platform": _pair(estimate.head_platform),
        "free_for_head": estimate.next_builder.free,
        "tnb_s": _number(estimate.next_builder.tnb_s),
        "plt_s": _number(estimate.plt_s),
        "estimate_s": None if estimate.estimate_s is None else _number(estimate.estimate_s),
    }
    if explain:
        both = estimate.estimate_s is not None and job.duration_s is not None
        completion = (estimate.estimate_s or 0.0) + (job.duration_s or 0.0)
        row["completion_s"] = _number(completion) if both else None
        row["head_job"] = estimate.head_job
        row["next_builder"] = estimate.next_builder
        row["groups"] = [
            msgspec.to_builtins(group) | {"platform": _pair(group.platform)}
            for group in estimate.groups
        ]
    return row


def _pair(platform: Platform) -> list[str | bool | None]:
    return [platform.processor, platform.virtualized]


def _number(value: float) -> float | int:
    """Return whole numbers as integers: 480, not 480.0."""
    return int(value) if value.is_integer() else value
