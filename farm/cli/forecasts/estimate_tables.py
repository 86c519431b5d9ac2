"""The output of ``farm estimate``: the queue as a table, one estimate with its arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Group
from rich.text import Text

from farm.forecasts.dispatch.builder_pools import NextBuilder
from farm.forecasts.dispatch.estimate import DispatchEstimate, PredecessorGroup, estimate_at
from farm.forecasts.dispatch.rules import Rules
from farm.forecasts.dispatch.view import JobView
from farm.forecasts.dispatch.whole_queue import QueueEstimates
from farm.terminal.tables import Listing, numbers, texts
from farm.units import format_roughly


def queue_table(jobs: list[JobView], queue: QueueEstimates, limit: int) -> Listing:
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


def explanation(estimate: DispatchEstimate, rules: Rules, run_time: float | None) -> Group:
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
