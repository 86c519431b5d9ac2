"""``farm estimate``: when the waiting jobs of a farm will be dispatched."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from farm.app.long_running.snapshots import view_from
from farm.core.errors import StateError, nearest
from farm.core.model import Platform
from farm.forecasts.dispatch.builder_pools import NextBuilder
from farm.forecasts.dispatch.job_estimate import DispatchEstimate, PredecessorGroup, estimate_at
from farm.forecasts.dispatch.queue_estimates import QueueEstimates, estimate_queue
from farm.forecasts.dispatch.rules import RULES, Rules
from farm.forecasts.dispatch.view import FarmView, JobView
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note
from farm.terminal.tables import Listing, numbers, texts
from farm.units import format_roughly

RuleSet = Literal["page", "launchpad-2010", "launchpad", "farm"]
"""The names of ``RULES``, for the command line."""


def estimate(
    state: Annotated[Path | None, typer.Argument(metavar="[STATE.json]")] = None,
    job: Annotated[list[str] | None, typer.Option("--job")] = None,
    rules: RuleSet = "launchpad",
    as_json: AsJson = False,
    explain: Annotated[bool, typer.Option("--explain")] = False,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    limit: Annotated[int, typer.Option(min=0)] = 50,
) -> None:
    """Estimate when waiting jobs will be dispatched.

    Each estimate is time to next builder + lead time; adding its run time gives the end of the job.
    The state is a JSON file of builders and jobs, such as farm snapshot prints, or the present
    state of a live farm.

    Args:
        state: A state file or snapshot; - reads stdin. Default: the live farm.
        job: Only this job, by name; repeatable. Default: all jobs.
        rules: The rule set (see docs/explanation/dispatch-estimates.md).
        explain: Show the arithmetic behind each estimate.
        limit: Maximum number of rows, or of jobs explained; 0: no limit.
    """
    view, growing = view_from(state, redis, folder)
    if growing:
        pools = ", ".join(growing)
        note(f"builders still to come to {pools} are not counted: see farm whatif", err=True)
    chosen = RULES[rules]
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
        note(_queue_table(jobs, queue, limit or len(jobs)))


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
        note(_explanation(found, queue.rules, jobs[place].duration_s))
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


def _queue_table(jobs: list[JobView], queue: QueueEstimates, limit: int) -> Listing:
    """Return a table of the first ``limit`` waiting jobs, in dispatch order."""
    rows = (
        _queue_row(job, estimate_at(jobs, queue, place)) for place, job in enumerate(jobs[:limit])
    )
    more = len(jobs) - limit
    columns = ("ahead", "builders", "next free in", "lead time", "dispatch in", "done in")
    return Listing(
        (*texts("job", "platform"), *numbers(*columns)),
        rows,
        first_to_go=("builders", "ahead", "next free in"),
        title=f"{len(jobs)} waiting jobs in dispatch order, rules {queue.rules.name}",
        caption=f"… and {more} more (--limit 0 shows all)" if more > 0 else "",
    )


def _queue_row(job: JobView, found: DispatchEstimate) -> tuple[str, ...]:
    dispatch = math.nan if found.estimate_s is None else found.estimate_s
    return (
        job.name,
        str(job.platform),
        str(found.predecessors),
        str(found.pool_for_job),
        *map(_seconds, (found.next_builder.tnb_s, found.plt_s, dispatch)),
        "-" if job.duration_s is None else _seconds(dispatch + job.duration_s),
    )


def _explanation(estimate: DispatchEstimate, rules: Rules, run_time: float | None) -> Group:
    """Explain one estimate: groups, sums, divisors, the head job, and the next free builder."""
    table = Listing(
        (*texts("predecessors"), *numbers("jobs", "sum", "builders", "divided by", "adds")),
        [*map(_group_row, estimate.groups), ("lead time", *4 * ("",), _seconds(estimate.plt_s))],
    )
    title = Text(f"{estimate.job}: {_verdict(estimate)}", style="bold")
    lines = [Text(line) for line in _lines(estimate, rules)]
    if estimate.estimate_s is not None and run_time is not None:
        done = _seconds(estimate.estimate_s + run_time)
        lines.append(Text(f"  with {_seconds(run_time)} of run time it is done in {done}"))
    return Group(title, *([table] if estimate.groups else []), *lines)


def _verdict(estimate: DispatchEstimate) -> str:
    if estimate.estimate_s is None:
        return "no estimate, because no builder can run it"
    return f"dispatch in {_seconds(estimate.estimate_s)}"


def _lines(estimate: DispatchEstimate, rules: Rules) -> Iterator[str]:
    if not estimate.groups:
        yield "  lead time 0s: no job ahead competes with it"
    yield f"  builders that can run it, busy or free: {estimate.pool_for_job}"
    who = "itself" if estimate.head_job == estimate.job else estimate.head_job
    yield f"  head job: {who} ({estimate.head_platform})"
    found = estimate.next_builder
    yield f"  time to next builder {_seconds(found.tnb_s)}: {_reason(found)}"
    if estimate.estimate_s is not None:
        total = f"{_seconds(estimate.next_builder.tnb_s)} + {_seconds(estimate.plt_s)}"
        floor = f", at least {_seconds(rules.floor_s)}" if rules.floor_s else ""
        yield f"  {total}{floor} = {_seconds(estimate.estimate_s)} (rules {rules.name})"


def _reason(found: NextBuilder) -> str:
    if found.why == "free":
        return f"{found.free} free, {found.builder} among them"
    if found.why == "finishes":
        return f"{found.builder} finishes {found.job} first"
    if found.why == "overdue":
        late = _seconds(-(found.left_s or 0.0))
        return f"{found.builder} runs {found.job}, {late} overdue: two minutes are assumed"
    if found.why == "unknown":
        return f"{found.builder} runs {found.job} for an unknown time: two minutes are assumed"
    return "no builder of its platform runs a job"


def _group_row(group: PredecessorGroup) -> tuple[str, ...]:
    adds = _seconds(group.lead_time_s) if group.pool else "ignored: no builder"
    return (
        str(group.platform),
        str(group.jobs),
        _seconds(group.sum_s),
        str(group.pool),
        str(group.divisor) if group.pool else "-",
        adds,
    )


def _seconds(value: float) -> str:
    return "never" if math.isnan(value) else format_roughly(value)
