"""Comparisons and sweeps as tables for the terminal, and sweeps as tidy tables for programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from farm.csv_cells import harmless
from farm.results.comparison.compared_metrics import (
    DIRECTIONS,
    METRICS,
    PER_MONTH,
    Metric,
    Unit,
    readable,
)
from farm.results.comparison.compared_values import (
    ComparedRuns,
    MetricComparison,
    PairComparison,
    SweepRow,
    SweptSettings,
)
from farm.results.comparison.comparison_answer import (
    STILL,
    WAIT,
    answer_of_comparison,
    answer_of_sweep,
    choices_of_sweep,
    frontier,
)
from farm.results.comparison.differences import headings, setting_name
from farm.results.comparison.significance import Interval, ends_of
from farm.results.formatting import readable_percent, readable_span, sentence
from farm.results.money import Currency, is_money, unit_of_cost
from farm.scenario import TwinErrors
from farm.scenario.model import NOT_DISTINGUISHABLE
from farm.terminal.cells import Styled, folding, following, numbers, styled, texts
from farm.terminal.tables import Listing, Parts, as_html, group

ABOUT = (
    "stretch: response time ÷ service time alone; fairness index: Jain's, of the slot time that "
    "parties got over what they were entitled to: 1 is even; cost: builder-hours, each at its "
    "pool's price; idle share: of the slot time paid; throughput: jobs a second"
)
FIRST_TO_GO = ("from", "to", "base", "other")
"""Columns of a comparison that a narrow terminal does without; differences and verdicts stay."""
MOST_PARTS = 12
"""Parts of the jobs in a table, those that changed most."""
STYLES = {
    "better": "green",
    "worse": "red",
    "noise": "dim",
    "same": "dim",
    "small": "dim",
    NOT_DISTINGUISHABLE: "dim",
}

TIDY = (
    "metric", "unit", "replications", "mean", "low", "high", "median", "difference", "relative",
    "difference_low", "difference_high", "p", "verdict",
)  # fmt: skip
"""The columns of a tidy table, after those of the axes."""


def render_sweep(sweep: SweptSettings, metrics: Sequence[Metric]) -> Parts:
    """Return the answer of a sweep and its matrix: a line per setting, some metrics."""
    answer = styled(sentence(answer_of_sweep(sweep, metrics[0])), "bold")
    matrix, lines = _matrix(sweep, metrics), [*remarks(sweep)]
    if "frontier" in matrix.names:
        lines.append(
            "frontier: no other setting waits less on average and costs no more "
            f"({unit_of_cost(sweep.currency)})"
        )
    return group(answer, matrix, *(styled(line) for line in lines))


def sweep_html(sweep: SweptSettings, metrics: Sequence[Metric]) -> str:
    """Return the answer of a sweep and its matrix as HTML, for notebooks."""
    return as_html(render_sweep(sweep, metrics))


def remarks(sweep: SweptSettings) -> Iterator[str]:
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
    if sweep.workloads and not sweep.not_comparable:
        yield (
            f"the workload is {sweep.workloads[0]}: users wait for verdicts, so the number of jobs "
            "depends on the setting; see runs per hour"
        )
    for axis in sweep.without_effect:
        yield f"{axis} changed nothing: every number is the same with each of its values"
    for warning in sweep.warnings:
        yield f"warning: {warning}"


def _matrix(sweep: SweptSettings, metrics: Sequence[Metric]) -> Listing:
    """Return settings by metrics: each mean, its ±, and what it is against the baseline."""
    noisy, lines = len(sweep.seeds) > 1, [*matrix_of(sweep, metrics)]
    several = len(lines) > 1
    has_frontier = several and not sweep.not_comparable
    columns = [*folding(*headings(sweep.axes))]
    for metric in metrics:
        columns += numbers(metric.name.replace("_", " "))
        columns += following([*numbers(*["±"] * noisy), *texts(*["against"] * several)])
    rows: list[list[str | Styled]] = []
    for line in lines:
        row: list[str | Styled] = [*line.settings]
        for mean, half, against in line.cells:
            row += [mean, *[half] * noisy, *[against] * several]
        rows.append([*row, *["*" if line.best else ""] * has_frontier])
    columns += texts(*["frontier"] * has_frontier)
    return Listing(columns, rows, first_to_go=("±", "frontier"))


class MatrixRow(NamedTuple):
    """A setting of a sweep: for each metric its mean, its ±, and what it is against the base."""

    settings: tuple[str, ...]
    cells: list[tuple[str, str, Styled]]
    #: no other setting waits less and costs no more
    best: bool


def matrix_of(sweep: SweptSettings, metrics: Sequence[Metric]) -> Iterator[MatrixRow]:
    """Yield a row for each setting of a sweep, with these metrics."""
    by_setting: dict[tuple[str, ...], dict[str, SweepRow]] = {}
    for row in sweep.rows:
        by_setting.setdefault(tuple(row.settings.values()), {})[row.metric] = row
    best = [] if sweep.not_comparable else frontier([*choices_of_sweep(sweep)])
    # a column has shares, or values where one of its baselines is 0
    valued = {row.metric for row in sweep.rows if row.difference and row.relative is None}
    for settings, rows in by_setting.items():
        cells = [
            _cells(rows[metric.name], whole=len(metrics) == 1, shares=metric.name not in valued)
            for metric in metrics
        ]
        yield MatrixRow(settings, cells, setting_name(rows[WAIT].settings) in best)


def _cells(row: SweepRow, *, whole: bool, shares: bool) -> tuple[str, str, Styled]:
    """Return a mean, its ±, and its difference with the verdict; ``whole``: its interval too."""
    half = None if row.interval is None else (row.interval.high - row.interval.low) / 2
    mean, around = readable(row.mean, row.unit), "" if half is None else readable(half, row.unit)
    if row.difference is None:
        return mean, around, styled("baseline" if row.baseline is None else "", "dim")
    relative = row.relative if shares else None
    cells = difference_cells(row.difference, relative, row.difference_interval, row.unit)
    between = f" ({cells[1]} to {cells[2]})" if whole and cells[1] != cells[2] else ""
    verdict = row.verdict or ""
    shown = f"{cells[0]}{between} {verdict}".strip()
    if verdict == "same" or (verdict in STILL and cells[0] in UNSEEN):
        shown = "same"
    return mean, around, styled(shown, STYLES.get(verdict, ""))


def difference_cells(
    difference: float | None,
    relative: float | None,
    interval: Interval | None,
    unit: Unit,
    base: float | None = None,
) -> list[str]:
    """Return a difference and its interval, as shares of the base where that is not 0."""
    shares = shares_of(difference, relative, interval)
    ends = ends_of(interval)
    if difference == 0 and base:
        shares = [0.0, *(None if end is None else math.expm1(end / base) for end in ends)]
    elif relative == -1:
        shares = [-1.0, None, None]
    if shares is None:
        return ["" if one is None else readable(one, unit) for one in (difference, *ends)]
    return ["" if one is None else readable_percent(one, signed=bool(one)) for one in shares]


def shares_of(
    difference: float | None, relative: float | None, interval: Interval | None
) -> list[float | None] | None:
    """Return a difference and its interval as shares of the base; None: of 0, or of all of it.

    The ends are taken on a log scale, so that none lies below -100 %: the ratio to the base,
    to the power of end ÷ difference (test-based limits: Miettinen, "Estimability and estimation in
    case-referent studies", 1976). They hold 0 % just where the interval holds 0.
    """
    if not difference or not relative or relative <= -1:
        return None
    log = math.log1p(relative) / difference
    found = (difference, *ends_of(interval))
    return [None if value is None else math.expm1(value * log) for value in found]


def tidy(sweep: SweptSettings) -> list[dict[str, object]]:
    """Return a row for each setting and metric, with the columns of ``TIDY``."""
    rows: list[dict[str, object]] = []
    for row in sweep.rows:
        low, high = ends_of(row.interval)
        difference_low, difference_high = ends_of(row.difference_interval)
        values = (
            row.metric,
            row.unit,
            row.replications,
            row.mean,
            low,
            high,
            row.median,
            row.difference,
            row.relative,
            difference_low,
            difference_high,
            row.p,
            row.verdict,
        )
        rows.append({**row.settings, **dict(zip(TIDY, values, strict=True))})
    return rows


def as_csv(rows: Sequence[dict[str, object]]) -> str:
    """Return rows as CSV; None is an empty cell."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    table.writeheader()
    table.writerows({name: harmless(cell) for name, cell in row.items()} for row in rows)
    return text.getvalue()


def render_comparison(comparison: ComparedRuns) -> Parts:
    """Return a comparison: what differs, its answer, and a table; of several runs a matrix."""
    answer, pairs = styled(sentence(answer_of_comparison(comparison)), "bold"), comparison.pairs
    differences = [styled(f"{pair.difference}.") for pair in pairs]
    if len(pairs) == 1:
        return group(*differences, answer, _pair(pairs[0], comparison.currency))
    lines = [ABOUT, *_unknown(pairs), *(line for pair in pairs for line in _notes(pair))]
    lines.append("intervals: of two runs compared, and with --json")
    parts = [_parts(pair) for pair in pairs]
    return group(
        *differences,
        answer,
        _metrics_by_run(pairs, comparison.currency),
        *(table for some in parts for table in some),
        *map(styled, dict.fromkeys(lines)),
    )


def _metrics_by_run(pairs: Sequence[PairComparison], currency: Currency) -> Listing:
    """Return metrics by runs: each value, its difference from the base, and the verdict."""
    rows = [
        [name, base, *(cell for run in runs for cell in run)]
        for name, base, runs in matrix_of_comparison(pairs, currency)
    ]
    columns = [*texts(""), *numbers(pairs[0].base_name)]
    for pair in pairs:
        columns += [*numbers(pair.other_name), *following(texts("against"))]
    return Listing(columns, rows)


def _is_shown(metric: MetricComparison, currency: Currency) -> bool:
    """Return whether a metric has values, and those by the month a meaning."""
    if metric.metric == PER_MONTH and not is_money(currency):
        return False
    return bool(metric.base or metric.other)


def matrix_of_comparison(
    pairs: Sequence[PairComparison], currency: Currency, metrics: Sequence[Metric] = METRICS
) -> Iterator[tuple[str, str, list[tuple[str, Styled]]]]:
    """Yield each metric, its value in the base, and in each other run with what it is against."""
    names = {metric.name for metric in metrics}
    for found in zip(*(pair.metrics for pair in pairs), strict=True):
        if found[0].metric not in names or not any(_is_shown(one, currency) for one in found):
            continue
        runs = []
        for one in found:
            cells = difference_cells(one.difference, one.relative, one.interval, one.unit)
            verdict = one.verdict or ""
            is_same = verdict == "same" or (verdict in STILL and cells[0] in UNSEEN)
            shown = "same" if is_same else f"{cells[0]} {verdict}".strip()
            runs.append((readable(one.other, one.unit), styled(shown, STYLES.get(verdict, ""))))
        name = found[0].metric.replace("_", " ")
        yield name, readable(found[0].base, found[0].unit), runs


def _pair(pair: PairComparison, currency: Currency) -> Parts:
    columns = (*texts(""), *numbers("base", "other", "difference", "from", "to", "verdict"))
    rows = [_compared(metric) for metric in pair.metrics if _is_shown(metric, currency)]
    if pair.not_comparable:
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    table = Listing(
        columns,
        rows,
        first_to_go=FIRST_TO_GO,
    )
    titles = [
        styled(f"base   {_called(pair.base, pair.base_name, pair.worlds[0])}"),
        styled(f"other  {_called(pair.other, pair.other_name, pair.worlds[1])}"),
    ]
    lines = (ABOUT, *_intervals(pair), *_lines(pair))
    return group(*titles, table, *_parts(pair), *map(styled, lines))


def _called(label: str, name: str, world: str) -> str:
    """Return a run's label and world, with what it is called if that is another name."""
    return f"{label} ({world})" if label == name else f"{label} ({world}): {name}"


UNSEEN = ("+0.0 %", "-0.0 %")
"""Differences whose digits do not show them: with a verdict of no difference they are the same."""
PART_HEADINGS = ("mean wait", "base", "other", "difference", "from", "to", "verdict")


def table_of_parts(pair: PairComparison) -> list[tuple[str, ...]]:
    """Return the mean wait of each part of the jobs, where the parts' waits differ."""
    rows: list[tuple[str, ...]] = []
    for kind in dict.fromkeys(one.of for one in pair.parts):
        parts = [one for one in pair.parts if one.of == kind]
        if all(one.verdict in (*STILL, NOT_DISTINGUISHABLE, None) for one in parts):
            continue
        parts.sort(key=lambda one: -abs(one.difference or 0.0))
        rows += [
            (
                f"{kind} {one.name}",
                readable(one.base, "s"),
                readable(one.other, "s"),
                *difference_cells(one.difference, one.relative, one.interval, "s", one.base),
                one.verdict or "",
            )
            for one in parts[:MOST_PARTS]
        ]
    return rows


def _parts(pair: PairComparison) -> list[Listing]:
    rows: list[list[str | Styled]] = [
        [*row[:-1], styled(row[-1], STYLES.get(row[-1], ""))] for row in table_of_parts(pair)
    ]
    columns = (*texts(PART_HEADINGS[0]), *numbers(*PART_HEADINGS[1:]))
    if not rows:
        return []
    title = f"{pair.other_name} against {pair.base_name}"
    return [Listing(columns, rows, title=title, first_to_go=FIRST_TO_GO)]


def _compared(metric: MetricComparison) -> list[str | Styled]:
    unit, verdict, of = metric.unit, metric.verdict or "", (metric.difference, metric.relative)
    values = [readable(one, unit) for one in (metric.base, metric.other)]
    cells = difference_cells(*of, metric.interval, unit, metric.base)
    shown = styled(verdict, STYLES.get(verdict, ""))
    return [metric.metric.replace("_", " "), *values, *cells, shown]


def _intervals(pair: PairComparison) -> list[str]:
    """Say where the intervals are from, and what has none."""
    quantiles: dict[str, bool] = {}  # by method, whether it is for quantiles alone
    for one in pair.metrics:
        if one.interval is not None:
            rank = one.metric.rpartition(" ")[2] in ("p50", "p95")
            quantiles[one.interval.method] = quantiles.get(one.interval.method, True) and rank
    several = len(quantiles) > 1
    methods = [f"{name} (of p50, p95)" if q and several else name for name, q in quantiles.items()]
    lines = [f"from, to: of the difference, 95 %: {'; '.join(methods)}"] if methods else []
    return [*lines, *_unknown([pair])]


def _unknown(pairs: Iterable[PairComparison]) -> list[str]:
    """Say which verdicts are directions alone."""
    found = sorted(
        {str(m.verdict) for pair in pairs for m in pair.metrics if m.verdict in DIRECTIONS}
    )
    shown = "the noise of one run is unknown there; give several seeds"
    return [f"{', '.join(found)}: {shown}"] if found else []


def _notes(pair: PairComparison) -> list[str]:
    lines = [str(TwinErrors(**pair.twin))] if pair.twin is not None else []
    return lines + ([pair.note] if pair.note else [])


def _lines(pair: PairComparison) -> list[str]:
    lines = _notes(pair)
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
