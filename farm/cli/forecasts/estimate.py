"""``farm admin estimate``: when the waiting jobs of a farm will start, or how long jobs run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Group
from rich.text import Text

from farm.app.forecasts.formula_table import WaitingJobs
from farm.app.forecasts.run_times import RunTime, alike, learned_from, quorum
from farm.app.jobs.sources import parse_platform
from farm.app.long_running.snapshots import view_from
from farm.core.errors import InputError
from farm.core.model import Builder, Platform
from farm.forecasts.dispatch.builder_pools import NextBuilder
from farm.forecasts.dispatch.job_estimate import DispatchEstimate, PredecessorGroup
from farm.forecasts.dispatch.launchpad_formula import RULES
from farm.forecasts.dispatch.view import JobView
from farm.forecasts.forecast_words import StartForecast, range_in_words, run_time_in_words
from farm.terminal.cells import folding, numbers, texts
from farm.terminal.field_options import Fields, with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis, seconds_of
from farm.terminal.output import note, print_json, progress, remark
from farm.terminal.tables import Listing
from farm.units import format_roughly
from farm.upstream.launchpad import Rules

_COLUMNS = (
    *texts("builder", "pool"),
    *numbers("speed", "run time", "P10 - P90", "rest"),
    *folding("by"),
    *numbers("samples"),
)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Of what job, where and by what a run time is asked.

    Attributes:
        kind: a hypothetical job of this kind.
        size: a hypothetical job of this size.
        declared: a hypothetical job of this declared time.
        platform: a hypothetical job for this platform, such as amd64/virtual.
        builder: only on this builder.
        size_bound: for BOINC, the bound on operations after which a client ends a job.
        deadline: check whether each builder would finish it within this time.
        replicas: estimate when this many replicas sent now are all finished.
        estimator: use another runtime estimator, trained on the run.
        at: ask at this time of the run, with what was known then, not at its end.
    """

    kind: str = "job"
    size: float | None = None
    declared: Annotated[str | None, typer.Option(metavar="TIME")] = None
    platform: str | None = None
    builder: str | None = None
    size_bound: Annotated[float | None, typer.Option(min=0)] = None
    deadline: Annotated[str | None, typer.Option(metavar="TIME")] = None
    replicas: Annotated[int | None, typer.Option(min=1)] = None
    estimator: str | None = None
    at: Annotated[str | None, typer.Option(metavar="TIME")] = None


def show_run_time(
    source: Path | None,
    job: str | None,
    asked: Question,
    place: tuple[str | None, Path],
    *,
    as_json: bool,
) -> None:
    """Print how long a job will run, on each builder, and the rung behind each estimate."""
    builder, replicas = asked.builder, asked.replicas
    deadline = _span(asked.deadline, "--deadline")
    with progress("learning", silent=as_json):
        learned = learned_from(source, *place, asked.estimator, _span(asked.at, "--at"))
    learned = msgspec.structs.replace(learned, size_bound=asked.size_bound, deadline=deadline)
    if job is not None:
        wanted, assumed = learned.job(job), ""
    else:
        time = _span(asked.declared, "--declared")
        at = _platform(asked.platform, learned.builders.values())
        wanted, assumed = learned.hypothetical(asked.kind, at, asked.size, time)
    rows = learned.run_times(wanted, builder)
    done = None if replicas is None else quorum(rows, replicas)
    if as_json:
        print_json(*rows)
        if done is not None:
            print_json({"replicas": replicas, "done_in_s": done[0], "builders": done[1]})
        return
    what = wanted.id or f"a job of the kind {wanted.kind}"
    runs = run_time_in_words(_forecast(rows[0])) if rows else "runs nowhere"
    note(f"{what} ({wanted.platform}) {runs}, by {learned.estimator.name}")
    if assumed:
        note(f"({assumed})")
    cells = [_cells(row, count) for row, count in alike(rows)]
    note(Listing(_COLUMNS, cells, first_to_go=("rest", "speed", "pool")))
    if done is not None:
        words = f"{replicas} replicas are done in {format_roughly(done[0])}"
        note(f"{words}, on {', '.join(done[1])}")


def _forecast(row: RunTime) -> StartForecast:
    return StartForecast(run_time=row.estimate_s, run_time_low=row.p10_s, run_time_high=row.p90_s)


def _span(text: str | None, option: str) -> float | None:
    return None if text is None else seconds_of(text, option, least=0)


def _platform(given: str | None, builders: Iterable[Builder]) -> Platform:
    if given is not None:
        return parse_platform(given, "--platform", None)
    first = next(iter(builders), None)
    if first is None:
        return Platform()
    return Platform(first.processors[0] if first.processors else None, first.virtualized)


def _cells(row: RunTime, count: int) -> tuple[str, ...]:
    name = "(waiting)" if row.builder is None else row.builder
    rest = "" if row.remaining_s is None else format_roughly(row.remaining_s)
    notes = [row.rung]
    if row.size_scale is not None:
        notes.append(f"told size * {row.size_scale:g}")
    if row.own_estimate_s is not None:
        notes.append(f"it estimates {format_roughly(row.own_estimate_s)}")
    if row.done is not None:
        notes.append(f"{100 * row.done:.0f} % done")
    if row.limit_s is not None:
        notes.append(f"ended after {format_roughly(row.limit_s)}")
    if row.late_s is not None:
        late = format_roughly(row.late_s)
        sent = ", yet sent: it is idle" if row.sent else ""
        notes.append(f"late by {late}{sent}" if row.late_s else "in time")
    names = name if count == 1 else f"{name} and {count - 1} more"
    between = ""
    if row.p10_s is not None and row.p90_s is not None:
        between = range_in_words(row.p10_s, row.p90_s)
    figures = f"{row.speed:g}", format_roughly(row.estimate_s), between, rest
    return names, row.pool or "", *figures, "; ".join(notes), f"{row.samples:,}"


RuleSet = Literal["page", "launchpad-2010", "launchpad", "farm"]
"""The names of ``RULES``, for the command line."""
#: below the table
NO_RANGE = "expected times: the formula has no ranges, farm jobs and farm job ID tell them"
ROWS = 50
"""Shown, if not told otherwise."""
AT_ONCE = 1000
"""Rows that are written in one step."""


@with_fields
def estimate(
    *,
    state: Annotated[Path | None, typer.Argument(metavar="STATE.json|RUN")] = None,
    job: Annotated[list[str] | None, typer.Option("--job", metavar="ID")] = None,
    rules: RuleSet = "launchpad",
    as_json: AsJson = False,
    explain: Annotated[bool, typer.Option("--explain")] = False,
    limit: Annotated[int | None, typer.Option(min=0)] = None,
    run_time: Annotated[bool, typer.Option("--run-time")] = False,
    question: Annotated[Question, Fields(prefix="With --run-time: ")],
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
) -> None:
    """Estimate when waiting jobs will be dispatched, or how long a job will run.

    Each estimate is time to next builder + lead time; adding its run time gives the end of the job.
    The state is a JSON file of builders and jobs, such as farm status --save writes, or the present
    state of a live farm.

    With --run-time: between which times it runs in eight cases of ten (P10 - P90), for a builder of
    speed 1 (as while it waits), and for each builder that may run it, with the rung and the number
    of samples behind the estimate; for a running job, for its builder, with the remaining time by
    its progress. A hypothetical job without --size and --declared has the
    means of its kind's jobs. Builders of a pool with equal estimates share a row; with --json each
    has its own, and --replicas a last one.

    Args:
        state: A state file or snapshot; - reads stdin; with --run-time also a run, or a bundle of
            records. Default: the live farm.
        job: Only this job, by name; repeatable. Default: all jobs; with --run-time a hypothetical
            one.
        rules: The rule set (see docs/explanation/dispatch-estimates.md).
        explain: Show the arithmetic behind each estimate.
        limit: Maximum number of rows, or of jobs explained; 0: no limit. Default: 50, but for plain
            --json, which has all.
        run_time: How long jobs run, instead of when they start.

    Examples:
        farm admin estimate                                when each waiting job starts
        farm admin estimate now.json --job J8 --explain    one job, with the arithmetic
        farm admin estimate --run-time --job build-17      how long it runs, and by what
    """
    if run_time:
        if job and len(job) > 1:
            raise InputError("--job: found several; allowed with --run-time: one")
        show_run_time(state, job[0] if job else None, question, (redis, folder), as_json=as_json)
        return
    if question != Question():
        raise InputError("found an option on run times without --run-time; allowed: with it")
    view, growing = view_from(state, redis, folder)
    if growing:
        pools = ", ".join(growing)
        remark(f"builders still to come to {pools} are not counted: see farm whatif")
    waiting = WaitingJobs(view, RULES[rules], "the farm" if state is None else str(state))
    wanted = [waiting.place_of(name) for name in job or ()]
    for place in wanted:
        _mention_unknown_processor(waiting, waiting.jobs[place])
    places = wanted or list(range(len(waiting.jobs)))
    names = bool(wanted) or explain
    if limit is None and not wanted and (explain or not as_json):
        limit = ROWS
    shown = places[: limit or None]
    if as_json:
        _print_json(waiting, shown, names=names, explain=explain)
    elif names:
        note(*(_explanation(waiting, place) for place in shown))
    else:
        note(_queue_table(waiting, len(shown)))
        return
    if len(shown) < len(places):
        note(f"… and {_more(len(places) - len(shown))}", err=as_json)


def _mention_unknown_processor(waiting: WaitingJobs, job: JobView) -> None:
    known = waiting.processors_for(job)
    if known is not None:
        remark(
            f"{job.name}: no builder of the file has processor {job.processor!r}"
            f" (they have: {', '.join(known) or 'none'}), so it has no estimate"
        )


def _more(count: int) -> str:
    return f"{count:,} more (--limit 0 shows all)"


def _print_json(waiting: WaitingJobs, places: Sequence[int], *, names: bool, explain: bool) -> None:
    rows = (waiting.row(place, names=names, explain=explain) for place in places)
    lead = "["
    while some := [msgspec.json.encode(row).decode() for row in islice(rows, AT_ONCE)]:
        typer.echo(lead + ",\n ".join(some), nl=False)
        lead = ",\n "
    typer.echo("]" if places else "[]")


def _queue_table(waiting: WaitingJobs, limit: int) -> Listing:
    """Return a table of the first ``limit`` waiting jobs, in dispatch order."""
    jobs = waiting.jobs
    rows = (_queue_row(job, waiting.estimate(place)) for place, job in enumerate(jobs[:limit]))
    more = len(jobs) - limit
    columns = ("ahead", "builders", "next free in", "lead time", "dispatch in", "done in")
    return Listing(
        (*texts("job", "platform"), *numbers(*columns)),
        rows,
        first_to_go=("builders", "ahead", "next free in", "lead time", "platform", "done in"),
        title=f"{len(jobs)} waiting jobs in dispatch order, rules {waiting.rules.name}",
        caption=f"… and {_more(more)}; {NO_RANGE}" if more > 0 else NO_RANGE,
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


def _explanation(waiting: WaitingJobs, place: int) -> Group:
    """Explain one estimate: groups, sums, divisors, the head job, and the next free builder."""
    estimate, run_time = waiting.estimate(place), waiting.jobs[place].duration_s
    table = Listing(
        (*texts("predecessors"), *numbers("jobs", "sum", "builders", "divided by", "adds")),
        [*map(_group_row, estimate.groups), ("lead time", *4 * ("",), _seconds(estimate.plt_s))],
    )
    title = Text(f"{estimate.job}: {_verdict(estimate)}", style="bold")
    lines = [Text(line) for line in _lines(estimate, waiting.rules)]
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
