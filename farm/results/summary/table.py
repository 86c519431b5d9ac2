"""A summary as tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from farm.results.formatting import (
    readable_count,
    readable_percent,
    readable_ratio,
    readable_span,
)
from farm.results.summary.costs import Part
from farm.results.summary.percentiles import Spread
from farm.results.summary.quiescence import Quiescence
from farm.results.summary.summary import Summary
from farm.terminal.console import many


def render_summary(summary: Summary) -> RenderableType:
    """Return a summary as rich tables: times, and costs."""
    title = Text.assemble(
        (summary.name, "bold"),
        f"  {summary.world}, {summary.policy}, seed {summary.seed}, {summary.engine}",
    )
    parts = [_parts(name, parts) for name, parts in (("pool", summary.pools),) if len(parts) > 1]
    return Group(title, _events(summary), _spreads(summary), *parts)


def _parts(name: str, parts: Mapping[str, Part]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(name, overflow="fold")
    for column in ("jobs", "mean wait", "p95 wait", "cost", "idle"):
        table.add_column(column, justify="right", no_wrap=True)
    for key, part in parts.items():
        table.add_row(
            Text(key),
            readable_count(part.submitted),
            readable_span(part.waiting_time.mean),
            readable_span(part.waiting_time.p95),
            readable_ratio(part.cost),
            readable_percent(part.idle_share),
        )
    return table


def _events(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    saved = (("time saved", readable_span(summary.saved_time)),) if summary.saved_time else ()
    for name, value in (
        ("jobs", _jobs(summary)),
        ("makespan", readable_span(summary.makespan)),
        ("builders", _builders(summary)),
        ("builder time", readable_span(summary.builder_time)),
        (
            "cost",
            f"{readable_ratio(summary.cost)}, {readable_percent(summary.idle_share)} of it idle",
        ),
        *saved,
        *_at_the_end(summary.quiescence),
        ("utilization", readable_percent(summary.utilization)),
        ("fairness", f"{summary.fairness_index:.3f}"),
        ("took", _speed(summary)),
    ):
        table.add_row(name, value)
    return table


def _at_the_end(found: Quiescence | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    there = f"{many(found.builders, 'builder')} there, {found.busy_builders:,} busy"
    if not found.open_jobs:
        return [("phases' end", f"at rest: no job open, {there}")]
    beyond = readable_span(found.beyond_time)
    jobs = many(found.open_jobs, "job")
    return [("phases' end", f"{jobs} open, {there}; the last job ended {beyond} later")]


def _jobs(summary: Summary) -> str:
    jobs = summary.jobs
    parts = [f"{readable_count(jobs.submitted)} submitted"]
    for word, count in (
        ("succeeded", jobs.succeeded),
        ("failed", jobs.failed),
        ("cancelled", jobs.cancelled),
        ("lost", jobs.lost),
    ):
        if count or word == "succeeded":
            parts.append(f"{readable_count(count)} {word}")
    if summary.attempts > jobs.submitted:
        parts.append(f"{readable_count(summary.attempts)} attempts")
    return ", ".join(parts)


def _builders(summary: Summary) -> str:
    builders = summary.builders
    parts = [f"{readable_count(builders.joined)} joined", f"at most {builders.max_running} at once"]
    if builders.retired:
        parts.append(f"{readable_count(builders.retired)} retired")
    if builders.lost:
        parts.append(f"{readable_count(builders.lost)} lost")
    if builders.over_provisioned:
        idle = readable_span(builders.over_provisioned_time)
        parts.append(f"{readable_count(builders.over_provisioned)} never ran a job ({idle})")
    return ", ".join(parts)


def _speed(summary: Summary) -> str:
    events = f"{readable_count(summary.events)} events"
    return f"{readable_span(summary.wall_time)} of real time, {events}"


def _spreads(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for column in ("mean", "std", "p50", "p95", "p99", "max", "of"):
        table.add_column(column, justify="right", no_wrap=True)
    rows: tuple[tuple[str, Spread, Callable[[float | None], str]], ...] = (
        ("waiting time", summary.waiting_time, readable_span),
        ("response time", summary.response_time, readable_span),
        ("stretch", summary.stretch, readable_ratio),
        ("matrix response", summary.matrix_response_time, readable_span),
        ("first failure", summary.first_failure_time, readable_span),
    )
    for name, spread, readable in rows:
        if spread.count:
            numbers = (spread.mean, spread.std, spread.p50, spread.p95, spread.p99, spread.max)
            table.add_row(name, *map(readable, numbers), readable_count(spread.count))
    return table
