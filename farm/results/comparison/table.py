"""A comparison as tables for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from farm.results.comparison.comparison import Comparison, MetricComparison, PairComparison
from farm.results.comparison.sweep_table import STYLES, difference_cells, readable
from farm.results.formatting import readable_percent, readable_span
from farm.terminal.tables import Listing, numbers, texts


def render_comparison(comparison: Comparison) -> RenderableType:
    """Return a comparison as rich tables, one for each run compared with the first."""
    return Group(*(_pair(pair) for pair in comparison.pairs))


def _pair(pair: PairComparison) -> RenderableType:
    table = Listing(
        (*texts(""), *numbers("base", "other", "difference", "from", "to", "verdict")),
        [_cells(metric) for metric in pair.metrics if metric.base or metric.other],
    )
    titles = (
        Text(f"base   {pair.base} ({pair.worlds[0]})"),
        Text(f"other  {pair.other} ({pair.worlds[1]})"),
    )
    return Group(*titles, table, *(Text(line) for line in (*_intervals(pair), *_lines(pair))))


def _cells(metric: MetricComparison) -> list[str | Text]:
    verdict = metric.verdict or ""
    return [
        _label(metric),
        readable(metric.base, metric.unit),
        readable(metric.other, metric.unit),
        *difference_cells(metric.difference, metric.relative, metric.interval, metric.unit),
        Text(verdict, style=STYLES.get(verdict, "")),
    ]


def _label(metric: MetricComparison) -> str:
    return metric.metric.replace("_", " ")


def _intervals(pair: PairComparison) -> list[str]:
    """Say where the intervals are from, and what has none."""
    methods = dict.fromkeys(m.interval.method for m in pair.metrics if m.interval is not None)
    lines = [f"from, to: of the difference, 95 %, {method}" for method in methods]
    if any(m.verdict == "differs" and m.interval is None and m.better for m in pair.metrics):
        lines.append("differs: with one run of each the noise is unknown; give several seeds")
    return lines


def _lines(pair: PairComparison) -> list[str]:
    lines = [pair.note] if pair.note else []
    if pair.jobs is None and lines:
        return lines
    if (jobs := pair.jobs) is not None:
        lines.append(
            f"{jobs.common:,} jobs in common ({jobs.only_base:,} only in the first, "
            f"{jobs.only_other:,} only in the second); {jobs.ended_differently:,} ended differently"
        )
        lines.append(
            "response time job by job: median difference "
            f"{readable_span(jobs.median_response_difference_time)}, median absolute difference "
            f"{readable_span(jobs.median_absolute_response_difference_time)}"
        )
        inverted = readable_percent(jobs.inverted_dispatch_pairs)
        lines.append(f"pairs of jobs dispatched in the other order: {inverted}")
    agreement = pair.agreement
    lines.append(
        "agreement: mean response time "
        f"{readable_percent(agreement.mean_response_relative, signed=True)}, per-job median "
        f"{readable_percent(agreement.median_absolute_relative)} of the mean"
    )
    return lines
