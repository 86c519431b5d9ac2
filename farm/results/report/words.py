"""A summary in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from farm.columns import known
from farm.results.comparison.comparison import Comparison
from farm.results.comparison.comparison_tables import remarks
from farm.results.comparison.sweep_judgement import Sweep
from farm.results.formatting import readable_percent, readable_ratio, readable_span, sentence
from farm.results.money import Currency, is_money, readable_cost, readable_monthly
from farm.results.summary.pipeline_figures import (
    PipelineFigures,
    critical_path_in_words,
    pipelines_in_words,
)
from farm.results.summary.summary import Summary
from farm.results.table.job_table import JobTable
from farm.scenario import TwinErrors
from farm.units import many

START_AT_ONCE = "most started at once"
MOST_OF_PATH = 12
"""Jobs of a critical path that are named; of a longer one its first and last."""
RINGS = "A ring in place of a dot: not told from the base, or too small a difference to matter."


def about_cost(currency: Currency) -> str:
    """Say what costs are."""
    if not isinstance(currency, str):
        return "cost: builder-hours"
    unit = f" in {currency}" if currency else ""
    return f"cost{unit}: builder-hours at each pool's price (1 if it has none)"


def _monthly(summary: Summary) -> str:
    if not is_money(summary.currency) or summary.cost_per_month is None:
        return ""
    return f", {readable_monthly(summary.cost_per_month, summary.currency)} at this load"


def of_run(answer: str, summary: Summary) -> Iterator[str]:
    """Describe a run; ``answer`` is the first sentence."""
    yield sentence(answer)
    jobs, wait = summary.jobs, summary.waiting_time
    ended = {name: getattr(jobs, name) for name in ("failed", "cancelled", "lost")}
    others = [f"{count:,} {name}" for name, count in ended.items() if count]
    share = readable_percent(jobs.succeeded / jobs.submitted) if jobs.submitted else "none"
    how = ", ".join([f"{share} succeeded", *others]) if others else "all succeeded"
    were = "was" if jobs.submitted == 1 else "were"
    yield (
        f"{many(jobs.submitted, 'job')} {were} submitted: {how}. "
        f"It took {readable_span(summary.makespan)} from the first arrival to the last end."
    )
    if wait.count:
        half = f"half of them at most {readable_span(wait.p50)}" if wait.p50 else START_AT_ONCE
        yield (
            f"A job waited {readable_span(wait.mean)} on average; {half}, "
            f"one in twenty more than {readable_span(wait.p95)}."
        )
    yield _of_builders(summary)
    if summary.runs_per_hour is not None:
        yield (
            f"The workload is {summary.workload}: users wait for the verdict on a run before they "
            f"push again; {readable_ratio(summary.runs_per_hour)} runs ended in an hour."
        )
    # a twin's caveat stands before the answer already
    others = [one for one in (*summary.warnings, *summary.remarks) if one not in answer]
    yield from (sentence(one.rstrip(".")) for one in others)


def of_pipelines(pipelines: PipelineFigures) -> Iterator[str]:
    """Describe the pipelines of a run: how many came to their end, and what took their time."""
    yield f"Pipelines: {pipelines_in_words(pipelines)}."
    path = pipelines.critical_path
    if path.jobs is not None:
        yield (
            f"Their critical paths are the chains of jobs, {path.jobs:.1f} on average, that "
            f"determined the response times: {critical_path_in_words(path)}."
        )


def of_path(pipeline: str, path: str) -> str:
    """Return a critical path as readable text, with no more than ``MOST_OF_PATH`` jobs."""
    jobs = [job.removeprefix(f"{pipeline}-") for job in path.split(";")]
    if len(jobs) > MOST_OF_PATH:
        half = MOST_OF_PATH // 2
        jobs = [*jobs[:half], "…", *jobs[-half:]]
    return " → ".join(jobs)


def of_run_in_progress(summary: Summary, jobs: JobTable, at: float) -> Iterator[str]:
    """Describe a run up to the instant ``at``, with the jobs that wait and run in it."""
    is_open = jobs["outcome"] == "lost"
    running = int((is_open & (jobs["builder"] != "")).sum())
    is_blocked = is_open & (jobs["builder"] == "") & np.isnan(jobs.waits_since)
    blocked = int(is_blocked.sum())
    waiting = int(is_open.sum()) - running - blocked
    ended = len(jobs) - running - waiting - blocked
    counts = f"{ended:,} ended, {running:,} running, {waiting:,} waiting"
    if blocked:
        counts += f", {blocked:,} blocked"
    yield (
        f"In progress, {readable_span(at)} of farm time so far: of {many(len(jobs), 'job')} "
        f"{counts}."
    )
    waits = known(jobs["started_at_s"] - jobs.waits_since)
    if len(waits):
        yield (
            f"The jobs that have started waited {readable_span(float(waits.mean()))} on average, "
            f"one in twenty of them more than {readable_span(float(np.quantile(waits, 0.95)))}."
        )
    yield _of_builders(summary)


def of_comparison(comparison: Comparison) -> Iterator[str]:
    """Describe a comparison: what the scenarios differ in, then what that does."""
    yield from (f"{pair.difference}." for pair in comparison.pairs)
    yield sentence(comparison.answer)
    for pair in comparison.pairs:
        if pair.note:
            yield pair.note.capitalize() + "."
        if pair.twin is not None:
            yield str(TwinErrors(**pair.twin)).capitalize() + "."


def of_sweep(sweep: Sweep) -> Iterator[str]:
    """Say which setting is best, and what a reader of the figures must know."""
    yield sentence(sweep.answer)
    yield from map(sentence, remarks(sweep))


def _of_builders(summary: Summary) -> str:
    builders = summary.builders
    return (
        f"{many(builders.joined, 'builder')} joined, at most {builders.max_running:,} at once. "
        f"They cost {readable_cost(summary.cost, summary.currency)}{_monthly(summary)}; "
        f"{readable_percent(summary.idle_share)} of the slot time paid was idle."
    )
