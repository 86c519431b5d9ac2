"""Comparisons and sweeps as tables for the terminal, and sweeps as tidy tables for programs."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from farm.csv_cells import harmless
from farm.results.comparison.comparison import Comparison, MetricComparison, PairComparison
from farm.results.comparison.metrics import METRICS, Metric, Unit
from farm.results.comparison.significance import Interval
from farm.results.comparison.sweep import Played, Sweep, SweepRow
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.scenario import TwinErrors
from farm.scenario.model import NOT_DISTINGUISHABLE
from farm.terminal.tables import Listing, folding, numbers, texts

#: a difference of more than this many times the base is shown as it is
MOST = 10.0
STYLES = {
    "better": "green", "worse": "red", "noise": "dim", "same": "dim", "small": "dim",
    NOT_DISTINGUISHABLE: "dim",
}  # fmt: skip

TIDY = (
    "metric", "unit", "replications", "mean", "low", "high", "median", "difference", "relative",
    "difference_low", "difference_high", "p", "verdict",
)  # fmt: skip
"""The columns of a tidy table, after those of the axes."""


def readable(value: float | None, unit: Unit) -> str:
    """Return a value of a metric as readable text."""
    if unit == "s":
        return readable_span(value)
    if unit == "count" and value is not None:
        return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.1f}"
    return readable_ratio(value)


def render_sweep(sweep: Sweep, metrics: Sequence[Metric]) -> RenderableType:
    """Return the table of a sweep for some metrics, with one line per setting and metric."""
    parts: list[RenderableType] = []
    for metric in metrics:
        rows = [row for row in sweep.rows if row.metric == metric.name]
        parts.append(_table(sweep, metric, rows))
    return Group(*parts, *(Text(line) for line in remarks(sweep)))


def remarks(sweep: Sweep) -> Iterator[str]:
    """Return what a reader of the table must know."""
    count = len(sweep.seeds)
    if count == 1:
        yield "one replication: the noise is unknown (see --replications)"
    elif any(row.verdict for row in sweep.rows):
        yield (
            f"{count} replications with common seeds; ± and intervals: 95 %; better or worse: more "
            f"than noise among all comparisons of a metric (Holm), and at least "
            f"{readable_percent(sweep.relevant)} of the baseline"
        )
    if sweep.twin is not None:
        yield str(TwinErrors(**sweep.twin))
    for axis in sweep.without_effect:
        yield f"{axis} changed nothing: every number is the same with each of its values"


def _table(sweep: Sweep, metric: Metric, rows: Sequence[SweepRow]) -> Listing:
    columns = numbers("mean", "±", "median", "difference", "from", "to", "verdict")
    return Listing(
        (*folding(*_headings(sweep.axes)), *columns),
        [(*row.settings.values(), *_cells(row)) for row in rows],
        title=metric.name.replace("_", " "),
        first_to_go=("median", "±", "to", "from", "mean"),
    )


def _headings(axes: Iterable[str]) -> list[str]:
    """Return the last part of each key, or all of it where two keys end alike."""
    ends = Counter(axis.rpartition(".")[2] for axis in axes)
    return [
        end
        if ends[end := axis.rpartition(".")[2]] == 1
        else axis.removeprefix("pools.").replace(".", " ")
        for axis in axes
    ]


def _cells(row: SweepRow) -> list[Text]:
    unit = row.unit
    half = None if row.interval is None else (row.interval.high - row.interval.low) / 2
    cells = [readable(row.mean, unit), readable(half, unit), readable(row.median, unit)]
    if row.difference is None:
        cells += ["baseline" if row.baseline is None else "", "", "", ""]
    else:
        cells += difference_cells(row.difference, row.relative, row.difference_interval, unit)
        cells.append(row.verdict or "")
    return [Text(cell, style=STYLES.get(cell, "")) for cell in cells]


def difference_cells(
    difference: float | None, relative: float | None, interval: Interval | None, unit: Unit
) -> list[str]:
    """Return a difference and its interval, as shares of the base where that is not 0."""
    found = (difference, *_ends(interval))
    if not difference or not relative or abs(relative) > MOST:
        return ["" if value is None else readable(value, unit) for value in found]
    share = relative / difference
    return [
        "" if value is None else readable_percent(value * share, signed=True) for value in found
    ]


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def tidy(sweep: Sweep) -> list[dict[str, object]]:
    """Return a row for each setting and metric, with the columns of ``TIDY``."""
    rows: list[dict[str, object]] = []
    for row in sweep.rows:
        low, high = _ends(row.interval)
        difference_low, difference_high = _ends(row.difference_interval)
        values = (
            row.metric, row.unit, row.replications, row.mean, low, high, row.median,
            row.difference, row.relative, difference_low, difference_high, row.p, row.verdict,
        )  # fmt: skip
        rows.append({**row.settings, **dict(zip(TIDY, values, strict=True))})
    return rows


def tidy_runs(played: Played) -> list[dict[str, object]]:
    """Return a row for each run: the axes, the seed, every metric."""
    return [
        {
            **played.named(settings),
            "seed": seed,
            **{metric.name.replace(" ", "_"): metric.value(one) for metric in METRICS},
        }
        for settings, summaries in played.summaries.items()
        for seed, one in zip(played.seeds, summaries, strict=True)
    ]


def as_csv(rows: Sequence[dict[str, object]]) -> str:
    """Return rows as CSV; None is an empty cell."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    table.writeheader()
    table.writerows({name: harmless(cell) for name, cell in row.items()} for row in rows)
    return text.getvalue()


def render_comparison(comparison: Comparison) -> RenderableType:
    """Return a comparison as rich tables, one for each run compared with the first."""
    return Group(*(_pair(pair) for pair in comparison.pairs))


def _pair(pair: PairComparison) -> RenderableType:
    table = Listing(
        (*texts(""), *numbers("base", "other", "difference", "from", "to", "verdict")),
        [_compared(metric) for metric in pair.metrics if metric.base or metric.other],
    )
    titles = (
        Text(f"base   {pair.base} ({pair.worlds[0]})"),
        Text(f"other  {pair.other} ({pair.worlds[1]})"),
    )
    return Group(*titles, table, *(Text(line) for line in (*_intervals(pair), *_lines(pair))))


def _compared(metric: MetricComparison) -> list[str | Text]:
    verdict = metric.verdict or ""
    return [
        metric.metric.replace("_", " "),
        readable(metric.base, metric.unit),
        readable(metric.other, metric.unit),
        *difference_cells(metric.difference, metric.relative, metric.interval, metric.unit),
        Text(verdict, style=STYLES.get(verdict, "")),
    ]


def _intervals(pair: PairComparison) -> list[str]:
    """Say where the intervals are from, and what has none."""
    methods = dict.fromkeys(m.interval.method for m in pair.metrics if m.interval is not None)
    lines = [f"from, to: of the difference, 95 %, {method}" for method in methods]
    if any(m.verdict == "differs" and m.interval is None and m.better for m in pair.metrics):
        lines.append("differs: with one run of each the noise is unknown; give several seeds")
    return lines


def _lines(pair: PairComparison) -> list[str]:
    lines = [str(TwinErrors(**pair.twin))] if pair.twin is not None else []
    lines += [pair.note] if pair.note else []
    if pair.jobs is None and pair.note:
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
