"""The report page of a run, of several runs, of a sweep, or of a farm's records.

That of a run in progress is written again as its event log grows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from farm.app.recorded.open_releases import OpenReleases
from farm.app.recorded.played_again import load_run
from farm.app.recorded.result import Result, compare, open_run
from farm.app.sweeps.swept import SWEEP, SweepResult, advice_on_kept, in_words, read_sweep
from farm.assembly import run_info
from farm.core.commands import Command, EndJob, RequeueJob, StartJob
from farm.core.errors import InputError, file_access
from farm.core.events import Event, JobStarted
from farm.plugins.entry_points import on_records
from farm.records.bundle import is_bundle
from farm.results.comparison.compared_metrics import metrics_named
from farm.results.comparison.comparison_answer import choices_of_comparison, choices_of_sweep
from farm.results.comparison.comparison_tables import (
    PART_HEADINGS,
    matrix_of,
    matrix_of_comparison,
    table_of_parts,
)
from farm.results.comparison.differences import headings
from farm.results.comparison.sweep_judgement import Sweep
from farm.results.figures.page import PageSection, PageTable, made_by, page, write_page
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.results.log.reader import entries_of
from farm.results.output_file import check_output
from farm.results.recorded_run import RecordedRun
from farm.results.report import words
from farm.results.report.comparison_figures import comparison_charts, sweep_charts, trade_off_chart
from farm.results.run_directory import EVENTS, Run
from farm.results.summary.costs import CostPart
from farm.results.summary.pipeline_figures import PipelineFigures
from farm.results.summary.summary import Measured
from farm.results.table.recorder import Recorder
from farm.units import format_roughly, many
from farm.whole_files import PIECE, ending

METRICS = metrics_named(
    (
        "waiting_time.mean",
        "waiting_time.p95",
        "response_time.mean",
        "stretch.mean",
        "cost",
        "idle_share",
    ),
    "metric",
)

MOST_PIPELINES = 10
"""The slowest pipelines that a page lists."""
PIPELINE_TIMES = ("response", "running", "waiting", "blocked")

OnStep = Callable[[str, float], None]

HEADINGS = {
    "queue": "Waiting and running",
    "builders": "Builders and provisioning",
    "utilization": "Utilization by pool",
    "distribution": "Waiting and response times",
    "slots": "Slots",
    "invocations": "Use by invocation",
    "estimates": "Estimates and outcomes",
}


def report(
    *what: Result | SweepResult | str | Path,
    out: str | Path,
    on_step: OnStep = lambda *_: None,
    refresh: float | None = None,
) -> Path:
    """Write a self-contained page on a run, several runs, a sweep, or a farm's records.

    Args:
        what: results, run directories, one sweep or its directory, or one bundle of records. The
            first run is the base.
        out: the file, whose name ends in .html.
        on_step: called with what is done next, such as ``"drawing slots"``, and how much (0 to 1)
            is done.
        refresh: a browser loads the page again after this many real seconds; None: never.

    Raises InputError for anything else, and if the page cannot be written.

    >>> page = farm.report(farm.simulate("quickstart"), out="quickstart.html")
    >>> page.stat().st_size < 5_000_000
    True
    """
    path = Path(out)
    check_output(path, [".html"], "out")
    if not what:
        raise InputError("report: found nothing to report; allowed: runs, or a sweep")
    bundles = [Path(one) for one in what if isinstance(one, str | Path) and is_bundle(Path(one))]
    if bundles and len(what) > 1:
        raise InputError("report: found a bundle beside others; allowed: one bundle, or runs")
    if bundles:
        write_page(path, on_records("report")(bundles[0], on_step))
        return path
    sweeps = [
        (one, found)
        for one in what
        if not isinstance(one, Result) and (found := _sweep_of(one)) is not None
    ]
    if sweeps and len(what) > 1:
        raise InputError("report: found a sweep beside others; allowed: one sweep, or runs")
    if sweeps:
        text = _of_sweep(*sweeps[0])
    else:
        steps = _Steps(on_step, len(what))
        runs = [_result(one, steps) for one in what if not isinstance(one, SweepResult)]
        text = _of_runs(runs, steps, refresh)
    write_page(path, text)
    return path


def write_figure(run: Result | str | Path, figure: str, out: str | Path) -> list[Path]:
    """Write one figure of a run as SVG, PNG or PDF; of several charts, each gets a number.

    Raises InputError for an unknown figure, one that the run has no data for, or a bad file name.
    """
    charts = _result(run).figures().draw(figure)
    if not charts:
        raise InputError(f"{run}: found nothing to draw for the figure {figure}")
    path = Path(out)
    if len(charts) == 1:
        return [charts[0].save(path)]
    numbered = enumerate(charts, start=1)
    return [one.save(path.with_name(f"{path.stem}-{n}{path.suffix}")) for n, one in numbered]


def _sweep_of(given: SweepResult | str | Path) -> Sweep | None:
    if isinstance(given, SweepResult):
        return given.sweep
    if (Path(given) / SWEEP).is_file():
        return read_sweep(Path(given))
    return None


def _result(given: Result | str | Path, steps: Callable[[str], object] = str) -> Result:
    if isinstance(given, Result):
        return given
    steps(f"reading {given}")
    return open_run(given)


class _Steps:
    """Tells what is done next, and how much of all is done."""

    def __init__(self, on_step: OnStep, runs: int) -> None:
        self._on_step = on_step
        self._done, self._all = 0, 2 * runs + 2 if runs > 1 else 1 + len(HEADINGS)

    def __call__(self, what: str) -> None:
        self._done += 1
        self.within(what, 0.0)

    def within(self, what: str, share: float) -> None:
        """Tell how much of the present step is done."""
        self._on_step(what, min(1.0, (self._done - 1 + share) / self._all))


def _of_runs(
    runs: Sequence[Result], steps: _Steps, refresh: float | None, *, has_charts: bool = True
) -> str:
    sections: list[PageSection] = []
    numbers: dict[str, object] = {}
    if len(runs) > 1:
        steps("comparing")
        found = compare(*runs, on_share=partial(steps.within, "comparing"))
        steps("drawing the comparison")
        charts = comparison_charts(found, METRICS)
        if not any(pair.not_comparable for pair in found.pairs):
            charts = trade_off_chart([*choices_of_comparison(found)], found.currency) + charts
        head = ("", found.pairs[0].base_name, *(pair.other_name for pair in found.pairs))
        rows = [
            (name, base, *(f"{value}\n{against.plain}" for value, against in others))
            for name, base, others in matrix_of_comparison(found.pairs, found.currency, METRICS)
        ]
        tables = [PageTable("", head, rows)]
        tables += [
            PageTable(f"{pair.other_name} against {pair.base_name}", PART_HEADINGS, parts)
            for pair in found.pairs
            if (parts := table_of_parts(pair))
        ]
        lines = [*words.of_comparison(found), words.RINGS]
        sections.append(PageSection("Comparison", lines, charts, tables))
        numbers["comparison"] = found
    for place, run in enumerate(runs):
        summary = run.kept.summary
        numbers["summary" if place == 0 else f"summary-{place + 1}"] = summary
        label = f"{run.kept.label}, {summary.world}" if len(runs) > 1 else ""
        sections += _of_run(run, label, steps, whole=len(runs) == 1, has_charts=has_charts)
    first = runs[0].kept.summary
    title = f"{first.name}: {first.policy}, seed {first.seed}, {first.world}"
    if len(runs) > 1:
        names = dict.fromkeys(run.kept.summary.name for run in runs)
        title = f"{len(runs)} runs of {', '.join(names)}"
        seeds = sorted({run.kept.summary.seed for run in runs})
        title += f", seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    under = "; ".join(
        dict.fromkeys(made_by(run.kept.version, run.kept.started[:10]) for run in runs)
    )
    return page(
        title, sections, numbers, refresh, under=f"{under}; {words.about_cost(first.currency)}"
    )


def _of_run(
    run: Result, label: str, steps: _Steps, *, whole: bool, has_charts: bool
) -> list[PageSection]:
    summary, figures = run.kept.summary, run.figures()
    if not whole:
        steps(f"drawing {label}")
        return [PageSection(label, _words_of(run), figures.draw("queue"))]
    named = {"pool": summary.pools, "platform": summary.platforms}
    tables = [_parts_table(name, parts) for name, parts in named.items() if parts]
    if len(tables) > 1 and _numbers(tables[0]) == _numbers(tables[1]):
        tables.pop()  # each pool has a platform of its own
    sections = [PageSection(label, _words_of(run), (), tables), *_pipelines(run)]
    if not has_charts:
        return [*sections, PageSection("", ["The charts are being drawn."])]
    for name in figures.names:
        steps(f"drawing {name}")
        charts = [one for one in figures.draw(name) if one.changes]
        if charts:
            rows = (_parts_table("invocation", summary.invocations),)
            more = rows if name == "invocations" else ()
            sections.append(PageSection(HEADINGS[name], (), charts, more))
    return sections


def _pipelines(run: Result) -> list[PageSection]:
    """Return the section on pipelines, if jobs need others: their times, and the slowest ones."""
    summary = run.kept.summary
    figures = summary.pipelines
    if not isinstance(figures, PipelineFigures):
        return []
    spreads = {
        "response time": figures.response_time,
        "waiting on the critical path": figures.waiting_time,
    }
    times = [
        (name, *map(readable_span, (of.mean, of.p50, of.p95, of.max)))
        for name, of in spreads.items()
    ]
    tables = [PageTable("", ("", "mean", "p50", "p95", "max"), times)]
    pipelines = run.pipelines()
    is_counted = summary.window.holds(pipelines["arrived_at_s"]) & pipelines.has_ended
    ended = pipelines.taken(is_counted)
    slowest = ended.taken(np.argsort(-ended["response_time_s"], kind="stable")[:MOST_PIPELINES])
    rows = [
        (
            row["pipeline"],
            row["outcome"],
            *(readable_span(row[f"{part}_time_s"]) for part in PIPELINE_TIMES),
            words.of_path(row["pipeline"], row["critical_path"]),
        )
        for row in slowest
    ]
    if rows:
        head = ("pipeline", "outcome", *PIPELINE_TIMES, "critical path")
        tables.append(PageTable("The slowest pipelines", head, rows, words=True))
    return [PageSection("Pipelines", list(words.of_pipelines(figures)), (), tables)]


def _words_of(run: Result) -> list[str]:
    """Describe a run, or one in progress: of its open jobs it is not known how they end."""
    summary = run.kept.summary
    if run.kept.state == "running" and run.records is not None:
        return list(words.of_run_in_progress(summary, run.jobs, run.records.last_at))
    return list(words.of_run(run.answer, summary))


def _numbers(table: PageTable) -> list[tuple[str, ...]]:
    return sorted(tuple(row[1:]) for row in table.rows)


def _parts_table(name: str, parts: Mapping[str, CostPart]) -> PageTable:
    """Return the table of a run's pools, platforms or invocations."""
    rows = []
    for key, of in parts.items():
        times = (of.waiting_time.mean, of.waiting_time.p95, of.response_time.mean)
        hourly = None if of.throughput_per_s is None else of.throughput_per_s * 3600
        costs = (readable_ratio(of.cost), readable_percent(of.idle_share), readable_ratio(hourly))
        rows.append((key, f"{of.submitted:,}", *map(readable_span, times), *costs))
    head = (name, "jobs", "mean wait", "p95 wait", "mean response", "cost", "idle", "jobs an hour")
    return PageTable("", head, rows)


def _of_sweep(given: SweepResult | str | Path, sweep: Sweep) -> str:
    """Return the page of a sweep: wait against cost, the matrix, then each metric's intervals."""
    head = [", ".join(headings(sweep.axes)) or "scenario"]
    head += [metric.name.replace("_", " ") for metric in METRICS]
    rows = []
    for row in matrix_of(sweep, METRICS):
        cells = [
            f"{mean}{' ± ' * bool(half)}{half}\n{change.plain}" for mean, half, change in row.cells
        ]
        rows.append([", ".join(row.settings) or sweep.scenario, *map(str.rstrip, cells)])
    choices = [] if sweep.not_comparable else [*choices_of_sweep(sweep)]
    first = trade_off_chart(choices, sweep.currency)
    day = ""
    if isinstance(given, SweepResult):
        advice = given.advice
    else:
        advice = advice_on_kept(Path(given), sweep)
        day = str(datetime.fromtimestamp((Path(given) / SWEEP).stat().st_mtime, UTC).date())
    lines = [*words.of_sweep(sweep), *filter(None, [in_words(advice, sweep)])]
    sections = [
        PageSection("", lines, first, [PageTable("", head, rows)]),
        PageSection("Each metric with its interval", [words.RINGS], sweep_charts(sweep, METRICS)),
    ]
    seeds = many(len(sweep.seeds), "seed")
    from_on = f"{seeds} from {sweep.seeds[0]} on"
    under = f"{made_by(day=day)}, {from_on}; {words.about_cost(sweep.currency)}"
    return page(f"Sweep of {sweep.scenario}", sections, {"sweep": sweep}, under=under)


#: real seconds between two looks at the log, and after which a browser loads the page again
EVERY = 5.0


def follow_run(
    path: Path,
    out: Path,
    *,
    every: float = EVERY,
    on_step: Callable[[str, float], None] = lambda *_: None,
    wait: Callable[[float], object] = time.sleep,
) -> Path:
    """Write the page of a run again while its event log grows, and a last time when it has ended.

    A browser that shows the page loads it again ``every`` real seconds, until the run has ended.
    The first page has no charts yet, so that it is there at once.
    Ctrl-C ends it too, with a page of the run so far. Raises InputError for what is not a run.
    """
    if load_run(path, unfinished=True).state != "running":
        return report(path, out=out, on_step=on_step)
    so_far = _SoFar(load_run(path, unfinished=True))
    drawn = -1

    def pause() -> bool:
        """Draw what is new, and wait; return whether the run was in progress before."""
        nonlocal drawn
        going = load_run(path, unfinished=True).state == "running"
        if going:
            if so_far.events != drawn:
                result = so_far.result()
                if drawn < 0:
                    # to load what draws and to draw takes three quarters of a page's time
                    write_page(out, _of_runs([result], _Steps(on_step, 1), every, has_charts=False))
                drawn = so_far.events
                report(result, out=out, refresh=every)
            on_step(f"following, at {format_roughly(so_far.at)} of farm time", 0.0)
            wait(every)
        return going

    try:
        for entry in entries_of(so_far.kept(_growing(path / EVENTS, pause))):
            so_far.take(entry.event, entry.commands)
    except KeyboardInterrupt:
        return report(so_far.result(), out=out)
    return report(path, out=out, on_step=on_step)


def _growing(path: Path, pause: Callable[[], bool]) -> Iterator[bytes]:
    """Yield whole lines of a file, until it has no more of them and ``pause`` returns False.

    ``pause`` is called at the end of the file as it was when it was read.
    """
    rest, going = b"", True
    with file_access(path, "read the event log"), ending(path).open("rb") as file:
        while True:
            found = file.read(PIECE)
            whole, end, rest = (rest + found).rpartition(b"\n")
            if end:
                yield whole + end
            if not found and not going:
                return
            # a busy farm writes faster than its log is read: what is there now is enough for a page
            if len(found) < PIECE and going:
                going = pause()


class _SoFar:
    """What has happened in a run up to now."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._recorder = Recorder()
        self._log: list[bytes] = []
        #: by job, the attempt that runs, as if it never ended
        self._running: dict[str, EndJob] = {}
        self._releases = OpenReleases()
        self.events, self.at = 0, 0.0

    def kept(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Keep the log's pieces, for the figures that need them."""
        for piece in pieces:
            self._log.append(piece)
            yield piece

    def take(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in one event and its commands."""
        self._recorder(event, commands)
        self._releases.take(event, commands)
        self.events, self.at = self.events + 1, event.at
        if isinstance(event, JobStarted) and (run := self._running.get(event.job)):
            self._running[event.job] = msgspec.structs.replace(run, started_at=event.at)
        for command in commands:
            if isinstance(command, StartJob):
                self._running[command.job.id] = EndJob(
                    job=command.job,
                    outcome="cancelled",
                    attempts=command.attempt,
                    submitted_at=self._releases.submitted_at(command.job.id, event.at),
                    finished_at=math.nan,
                    dispatched_at=event.at,
                    started_at=event.at,
                    builder=command.builder,
                    slot=command.slot,
                    released_at=self._releases.dispatched(command.job, event.at),
                )
            elif isinstance(command, RequeueJob):
                self._running.pop(command.job, None)
            elif isinstance(command, EndJob):
                self._running.pop(command.job.id, None)

    def result(self) -> Result:
        """Return the run as if it ended now."""
        scenario, meta = self._run.scenario, self._run.meta
        waiting = self._releases.waiting(self._running, self.at)
        records = self._recorder.records(self._running, waiting)
        info = msgspec.structs.replace(run_info(scenario, meta.world, "in progress"), until=0.0)
        remark = (
            f"In progress: this is the run up to {format_roughly(self.at)} of farm time; its "
            f"{len(records.lost):,} open jobs count as lost."
        )
        measured = Measured(records, info, 0.0, remarks=[remark])
        kept = RecordedRun(scenario, measured, records, self._log, "running", meta.started)
        return Result(kept, records)
