"""A summary as tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from farm.results.descriptive_statistics import Spread
from farm.results.formatting import (
    readable_percent,
    readable_ratio,
    readable_span,
    sentence,
)
from farm.results.money import is_money, readable_cost, readable_monthly
from farm.results.summary.costs import CostPart
from farm.results.summary.pipeline_figures import (
    PipelineFigures,
    critical_path_in_words,
    pipelines_in_words,
)
from farm.results.summary.summary import Quiescence, Summary
from farm.terminal.cells import Styled, numbers, styled, texts
from farm.terminal.tables import Listing, Parts, as_html, group, story
from farm.units import many

SpreadRow = tuple[str, Spread, Callable[[float | None], str]]
"""A row of the table of times: what it is of, its values, and how these are shown."""
MAX_INVOCATIONS = 10
"""Invocations in a table on the terminal; a page has more."""


def render_summary(summary: Summary) -> Parts:
    """Return a summary as rich tables: times, and costs."""
    where = f"  {summary.world}, {summary.policy}, seed {summary.seed}"
    if summary.world == "live":
        where += f", {summary.engine}"  # the server; a simulation is the same by either engine
    if summary.workload != "open":
        where += f", {summary.workload} workload"
    title = Styled((summary.name, "bold"), (where, ""))
    parts = []
    if len(summary.pools) > 1:
        parts.append(_pools(summary.pools))
    if len(summary.invocations) > 1:
        parts.append(_invocations(summary.invocations))
    return group(title, story(_events(summary)), _spreads(summary), *parts)


def summary_html(answer: str, summary: Summary) -> str:
    """Return the first sentence on a run and its tables as HTML, for notebooks."""
    return as_html(group(styled(sentence(answer), "bold"), render_summary(summary)))


def _pools(pools: Mapping[str, CostPart]) -> Listing:
    rows = []
    for name, of in pools.items():
        waits = map(readable_span, (of.waiting_time.mean, of.waiting_time.p95))
        costs = readable_ratio(of.cost), readable_percent(of.idle_share)
        rows.append((name, f"{of.submitted:,}", *waits, *costs))
    columns = numbers("jobs", "mean wait", "p95 wait", "cost", "idle")
    first_to_go = ("idle", "cost", "jobs", "mean wait")
    return Listing((*texts("pool"), *columns), rows, first_to_go=first_to_go)


def _invocations(invocations: Mapping[str, CostPart]) -> Listing:
    """Return the waits of those with most jobs."""
    by_jobs = sorted(invocations.items(), key=lambda item: -item[1].submitted)
    rows = []
    for name, of in by_jobs[:MAX_INVOCATIONS]:
        waits = (of.waiting_time.mean, of.waiting_time.p95, of.waiting_time.max)
        rows.append((name or "(none)", f"{of.submitted:,}", *map(readable_span, waits)))
    rest = len(by_jobs) - len(rows)
    columns = numbers("jobs", "mean wait", "p95 wait", "max wait")
    caption = f"{rest:,} with fewer jobs: --json" if rest else ""
    first_to_go = ("max wait", "jobs", "mean wait")
    return Listing((*texts("invocation"), *columns), rows, caption=caption, first_to_go=first_to_go)


def _events(summary: Summary) -> list[tuple[str, object]]:
    saved = (("time saved", readable_span(summary.saved_time)),) if summary.saved_time else ()
    return [
        ("jobs", _jobs(summary)),
        *_pipelines(summary),
        *_runs(summary),
        ("makespan", readable_span(summary.makespan)),
        ("builders", _builders(summary)),
        ("builder time", readable_span(summary.builder_time)),
        ("cost", _cost(summary)),
        *saved,
        *_at_the_end(summary.quiescence),
        ("utilization", readable_percent(summary.utilization)),
        ("fairness", f"{summary.fairness_index:.3f}"),
        *_switches(summary),
        ("took", f"{readable_span(summary.wall_time)} of real time, {summary.events:,} events"),
    ]


def _pipelines(summary: Summary) -> list[tuple[str, str]]:
    """Return how many pipelines came to their end, and what their response times were made of."""
    pipelines = summary.pipelines
    if not isinstance(pipelines, PipelineFigures):
        return []
    return [("pipelines", pipelines_in_words(pipelines)), *_critical_paths(pipelines)]


def _critical_paths(pipelines: PipelineFigures) -> list[tuple[str, str]]:
    path = pipelines.critical_path
    if path.jobs is None:
        return []
    return [("critical path", critical_path_in_words(path))]


def _runs(summary: Summary) -> list[tuple[str, str]]:
    """Return how many runs ended in an hour, where that depends on the farm."""
    if summary.runs_per_hour is None:
        return []
    text = f"{readable_ratio(summary.runs_per_hour)} an hour: users wait for verdicts"
    return [("runs", text)]


def _cost(summary: Summary) -> str:
    cost = readable_cost(summary.cost, summary.currency)
    text = f"{cost}, {readable_percent(summary.idle_share)} of it idle"
    if not is_money(summary.currency) or summary.cost_per_month is None:
        return text
    return f"{text}; {readable_monthly(summary.cost_per_month, summary.currency)} at this load"


def _switches(summary: Summary) -> list[tuple[str, str]]:
    """Return how often slots went over to another invocation, if there are any."""
    if summary.switches is None:
        return []
    text = f"{summary.switches:,} between invocations"
    if summary.switching_time:
        text += f", {readable_span(summary.switching_time)} of slot time"
    return [("switches", text)]


def _at_the_end(found: Quiescence | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    there = f"{many(found.builders, 'builder')} there, {found.busy_builders:,} busy"
    if not found.open_jobs:
        rest = "not at rest" if found.left_over else "at rest"
        return [("phases' end", f"{rest}: no job open, {there}")]
    beyond = readable_span(found.beyond_time)
    jobs = many(found.open_jobs, "job")
    return [("phases' end", f"{jobs} open, {there}; the last job ended {beyond} later")]


def _jobs(summary: Summary) -> str:
    jobs, always = summary.jobs, ("submitted", "succeeded")
    counts = {word: getattr(jobs, word) for word in jobs.__struct_fields__}
    parts = [f"{count:,} {word}" for word, count in counts.items() if count or word in always]
    if summary.skipped:
        parts.append(f"{summary.skipped:,} of them skipped")
    if summary.superseded:
        parts.append(f"{summary.superseded:,} of them superseded")
    if summary.attempts > jobs.submitted:
        parts.append(f"{summary.attempts:,} attempts")
    return ", ".join(parts)


def _builders(summary: Summary) -> str:
    builders = summary.builders
    parts = [f"{builders.joined:,} joined", f"at most {builders.max_running} at once"]
    counts = {"retired": builders.retired, "lost": builders.lost}
    parts += [f"{count:,} {word}" for word, count in counts.items() if count]
    if builders.over_provisioned:
        idle = readable_span(builders.over_provisioned_time)
        parts.append(f"{builders.over_provisioned:,} never ran a job ({idle})")
    return ", ".join(parts)


def _pipeline_response(summary: Summary) -> list[SpreadRow]:
    """Return the response times of pipelines, if these are not the matrices."""
    pipelines = summary.pipelines
    if not isinstance(pipelines, PipelineFigures):
        return []
    if pipelines.response_time == summary.matrix_response_time:
        return []
    return [("pipeline response", pipelines.response_time, readable_span)]


def _spreads(summary: Summary) -> Listing:
    spreads: tuple[SpreadRow, ...] = (
        ("waiting time", summary.waiting_time, readable_span),
        ("blocked time", summary.blocked_time or Spread(0), readable_span),
        ("recorded wait", summary.recorded_waiting_time or Spread(0), readable_span),
        ("response time", summary.response_time, readable_span),
        ("stretch", summary.stretch, readable_ratio),
        ("matrix response", summary.matrix_response_time, readable_span),
        *_pipeline_response(summary),
        ("first failure", summary.first_failure_time, readable_span),
    )
    rows = []
    for name, of, readable in spreads:
        if of.count:
            values = (of.mean, of.std, of.p50, of.p95, of.p99, of.max)
            rows.append((name, *map(readable, values), f"{of.count:,}"))
    near = "≈ " if summary.percentile_error else ""
    columns = numbers("mean", "std", f"{near}p50", f"{near}p95", f"{near}p99", "max", "of")
    first_to_go = ("std", f"{near}p99", "max", "of", f"{near}p50")
    return Listing((*texts(""), *columns), rows, first_to_go=first_to_go)
