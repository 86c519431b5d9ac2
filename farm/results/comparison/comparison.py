"""Comparison of runs: what differs, which is better, and whether that is significant."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import NamedTuple

import msgspec
import numpy as np

from farm.columns import Array, Flags, Floats, Numbers, Rows, known
from farm.core.errors import InputError
from farm.results.comparison import RELEVANT
from farm.results.comparison.compared_metrics import (
    METRICS,
    Metric,
    verdict_of,
)
from farm.results.comparison.compared_values import (
    Agreement,
    ComparedRuns,
    JobByJob,
    MetricComparison,
    PairComparison,
    PartComparison,
)
from farm.results.comparison.comparison_answer import answer_of_comparison
from farm.results.comparison.comparison_tables import render_comparison
from farm.results.comparison.differences import (
    Difference,
    Keys,
    differences_of,
    keys_of,
    names_by_settings,
)
from farm.results.comparison.significance import (
    FEW_DAYS,
    Interval,
    difference_of,
    inverted_share,
    mean_of,
    paired_interval,
    resampled_interval,
    welch_interval,
)
from farm.results.recorded_run import FinishedRun
from farm.results.summary.figures import Figures
from farm.results.summary.summary import Summary
from farm.results.table.job_table import JobTable, joined
from farm.results.table.pipelines import PipelineTable, pipelines_of
from farm.scenario import TwinErrors
from farm.terminal.tables import as_html


class Comparison(ComparedRuns, frozen=True):
    """The first run against each of the others, and what that says."""

    @property
    def answer(self) -> str:
        """One sentence: which run is best for what it costs."""
        return answer_of_comparison(self)

    def _repr_html_(self) -> str:
        """Show the answer and the table in a notebook."""
        return as_html(render_comparison(self))

    def to_json(self) -> bytes:
        """Return the comparison as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


class SeededRuns:
    """Runs of one scenario, in one world, under one policy, with different seeds."""

    def __init__(self, run: FinishedRun) -> None:
        self.runs = {run.summary.seed: run}
        self.key = setting_of(run)
        #: what it is called by what distinguishes it
        self.name = ""
        #: what distinguishes it from others of the same name
        self.apart = ""

    @cached_property
    def keys(self) -> Keys | None:
        """The values of all keys of its scenario; None: it cannot be read."""
        return keys_of(self.first)

    @property
    def first(self) -> FinishedRun:
        """The run that was named first."""
        return next(iter(self.runs.values()))

    @property
    def label(self) -> str:
        """The name: that of its first run, and the number of runs."""
        more = f" (mean of {len(self.runs)} seeds)" if len(self.runs) > 1 else ""
        return self.first.label + more + self.apart

    @cached_property
    def ended_pipelines(self) -> PipelineTable:
        """The pipelines of its first run that came to their end, and arrived in the run phase."""
        pipelines = pipelines_of(self.first.jobs)
        counts = self.first.summary.window.holds(pipelines["arrived_at_s"])
        return pipelines.taken(counts & pipelines.has_ended)

    def mean(self, metric: Metric) -> float | None:
        """Return a metric's mean over the seeds; None if a run lacks it."""
        values = [metric.value(run.summary) for run in self.runs.values()]
        numbers = [value for value in values if value is not None]
        return None if len(numbers) < len(values) else math.fsum(numbers) / len(numbers)


DAY = 86400.0
MIN_SHARED = 0.99
"""Share of the values of either run, at least, that are of jobs in both, so that the interval of
their differences is one of the difference over all jobs."""
MOST_PARTS = 20
"""Invocations and platforms that are compared: those with the most jobs."""


def setting_of(run: FinishedRun) -> str:
    """Return a value that is equal for runs that differ by their seed alone."""
    text = re.sub(r"(?m)^seed:.*\n?", "", run.scenario_text)
    return f"{run.summary.world}\n{run.summary.policy}\n{text}"


def settings_of(runs: Sequence[FinishedRun]) -> list[SeededRuns]:
    """Return the settings in order of their first runs; a repeated seed starts another one.

    If all runs are of one setting there is nothing to pool: each run is a setting.
    """
    settings: list[SeededRuns] = []
    for run in runs:
        key, seed = setting_of(run), run.summary.seed
        same = next((s for s in settings if s.key == key and seed not in s.runs), None)
        if same is None:
            settings.append(SeededRuns(run))
        else:
            same.runs[seed] = run
    return settings if len(settings) > 1 else [SeededRuns(run) for run in runs]


def compare(
    runs: Sequence[FinishedRun],
    *,
    relevant: float = RELEVANT,
    on_share: Callable[[float], object] = float,
) -> Comparison:
    """Compare the first setting with each of the others, pooling the seeds of a setting.

    A difference below ``relevant``, a share of the base, is called small. The bootstrap's resamples
    are the same whatever else is compared. ``on_share`` is given how much is done, 0 to 1. Raises
    InputError for fewer than two runs, and for runs that cannot be read.
    """
    if len(runs) < 2:
        raise InputError(f"{len(runs)} run given; a comparison takes two or more")
    base, *others = settings = settings_of(runs)
    names = Counter(one.label for one in settings)
    for number, one in enumerate(settings, start=1):
        one.apart = f", run {number}" if names[one.label] > 1 else ""
    called = names_by_settings(
        [one.keys for one in settings],
        [one.label for one in settings],
        [one.first.summary.seed for one in settings],
    )
    for one, name in zip(settings, called, strict=True):
        one.name = name
    judged, all_of_them = count(1), len(others) * len(METRICS)

    def on_metric() -> None:
        on_share(next(judged) / all_of_them)

    currencies = {one.first.summary.currency for one in settings}
    currency: str | msgspec.UnsetType = ""
    if len(currencies) == 1:
        [currency] = currencies
    elif msgspec.UNSET in currencies:
        currency = msgspec.UNSET
    return Comparison(
        tuple(_compare_pair(base, other, relevant, on_metric) for other in others),
        currency,
    )


class Sides(NamedTuple):
    """Two settings, and what a difference between them is judged by."""

    base: SeededRuns
    other: SeededRuns
    jobs: CommonJobs
    relevant: float
    twin: TwinErrors | None
    #: how many differences are judged together
    together: int = 1


def _compare_pair(
    base: SeededRuns, other: SeededRuns, relevant: float, on_metric: Callable[[], None]
) -> PairComparison:
    found = CommonJobs.of(base, other)
    twin = _twin_of(base, other)
    sides = Sides(base, other, found, relevant, twin)
    metrics: list[MetricComparison] = []
    for metric in METRICS:
        metrics.append(_compare_metric(metric, sides))  # resampling takes long
        on_metric()
    jobs = _job_by_job(found) if found.count else None
    compared = PairComparison(
        base=base.label,
        other=other.label,
        worlds=(base.first.summary.world, other.first.summary.world),
        metrics=tuple(metrics),
        jobs=jobs,
        agreement=_agreement(base, other, jobs),
        note=found.note,
        twin=None if twin is None else twin.model_dump(exclude_none=True),
        parts=(*_parts("invocation", sides), *_parts("platform", sides)),
        differences=_differences(base, other),
        base_name=base.name,
        other_name=other.name,
        workloads=(base.first.summary.workload, other.first.summary.workload),
    )
    return _without_verdicts(compared) if compared.not_comparable else compared


def _without_verdicts(pair: PairComparison) -> PairComparison:
    """Return the figures of two runs that cannot be compared: none of them is better."""
    replace = msgspec.structs.replace
    return replace(
        pair,
        metrics=tuple(replace(metric, verdict=None) for metric in pair.metrics),
        parts=tuple(replace(part, verdict=None) for part in pair.parts),
    )


def _differences(base: SeededRuns, other: SeededRuns) -> tuple[Difference, ...] | None:
    """Return what two settings differ in; a seed only where each is of one run."""
    if base.keys is None or other.keys is None:
        return None
    differences = differences_of(base.keys, other.keys)
    if len(base.runs) + len(other.runs) == 2:
        return differences
    return tuple(one for one in differences if one.key != "seed")


def _parts(of: str, sides: Sides) -> Iterator[PartComparison]:
    """Yield the mean waits of the invocations or platforms, if there are several, of most jobs."""
    names = _parts_of(sides.jobs.base[of], of)
    most = [name for name, _ in Counter(names.tolist()).most_common(MOST_PARTS)]
    for name in most if len(most) > 1 else ():

        def mean_wait(figures: Figures | Summary, name: str = name) -> float | None:
            parts = getattr(figures, f"{of}s")
            rows = zip(_parts_of(np.array([*parts], np.str_), of), parts.values(), strict=True)
            waits = [part.waiting_time for key, part in rows if key == name]
            count = sum(wait.count for wait in waits)
            return sum(w.count * (w.mean or 0.0) for w in waits) / count if count else None

        metric = Metric("waiting_time mean", "s", mean_wait, of_jobs="waiting_time_s")
        some = sides._replace(jobs=sides.jobs.only(of, name), together=len(most))
        one = _compare_metric(metric, some)
        yield PartComparison(of=of, name=name or "(none)", **msgspec.structs.asdict(one))


def _parts_of(names: Array, of: str) -> Array:
    """Return the part of each job: of an invocation the first value."""
    parted = of == "invocation" and len(names) > 0
    return np.char.partition(names, "/")[:, 0] if parted else names


def _twin_of(*settings: SeededRuns) -> TwinErrors | None:
    """Return the errors of the twin, or of the worse one; only a twin's scenario is read."""
    runs = [one.first for one in settings if re.search(r"(?m)^twin:", one.first.scenario_text)]
    errors = [run.scenario.twin for run in runs if run.scenario.twin is not None]
    return max(errors, key=lambda twin: twin.largest, default=None)


class Pairs(NamedTuple):
    """The same jobs in two runs, row by row."""

    base: JobTable
    other: JobTable

    def taken(self, rows: Rows) -> Pairs:
        """Return some of the rows."""
        return Pairs(self.base.taken(rows), self.other.taken(rows))

    def values(self, column: str) -> tuple[Floats, Floats]:
        """Return the values of both runs, NaN for the jobs that have none in one of them."""
        one, two = (run.counted(column) for run in self)
        return np.where(np.isnan(two), np.nan, one), np.where(np.isnan(one), np.nan, two)

    def differences(self, column: str) -> Floats:
        """Return other - base, for the jobs that have the value in both runs."""
        return known(self.other.counted(column) - self.base.counted(column))


class CommonJobs(msgspec.Struct, frozen=True):
    """The jobs common to both settings that arrived in the run phase, seed by seed."""

    #: all jobs of each setting
    base: JobTable
    other: JobTable
    #: the common ones of each pair of runs, and of all pairs
    by_run: Sequence[Pairs]
    pairs: Pairs
    #: the day in the base's farm time on which each common job arrived
    day: Numbers
    #: jobs of one id that are different jobs
    reused_ids: int

    @classmethod
    def of(cls, base: SeededRuns, other: SeededRuns) -> CommonJobs:
        """Return the jobs that two settings share; without a common seed, their first runs do."""
        seeds = [seed for seed in base.runs if seed in other.runs]
        runs = [(base.runs[seed], other.runs[seed]) for seed in seeds]
        by_run = []
        reused_ids = 0
        for base_run, other_run in runs or [(base.first, other.first)]:
            pairs = _same_ids(_counted(base_run), _counted(other_run))
            same = _same_jobs(pairs)
            by_run.append(pairs.taken(same))
            reused_ids += int((~same).sum())
        pairs = Pairs(*(joined(tables) for tables in zip(*by_run, strict=True)))
        return cls(
            base=joined(map(_counted, base.runs.values())),
            other=joined(map(_counted, other.runs.values())),
            by_run=by_run,
            pairs=pairs,
            day=np.floor(pairs.base.arrived_at / DAY).astype(np.int64),
            reused_ids=reused_ids,
        )

    def only(self, column: str, part: str) -> CommonJobs:
        """Return those of a part alone; the pairs of single runs stay whole."""
        is_part = _parts_of(self.pairs.base[column], column) == part
        return msgspec.structs.replace(
            self,
            base=_of_part(self.base, column, part),
            other=_of_part(self.other, column, part),
            pairs=self.pairs.taken(is_part),
            day=self.day[is_part],
        )

    @property
    def count(self) -> int:
        """The number of common jobs."""
        return len(self.pairs.base)

    @property
    def days(self) -> int:
        """The number of days on which jobs arrived."""
        return len(np.unique(self.day))

    @property
    def note(self) -> str:
        """What a reader must know about the jobs."""
        if self.reused_ids:
            share = f"{self.reused_ids:,} jobs have the same id and are different jobs"
            rest = ", and are not compared" if self.count else ": there is nothing to compare"
            return f"{share}{rest} job by job"
        if not self.count:
            return "these runs have no job in common: job by job there is nothing to compare"
        return ""


def _of_part(jobs: JobTable, column: str, part: str) -> JobTable:
    return jobs.taken(_parts_of(jobs[column], column) == part)


def _counted(run: FinishedRun) -> JobTable:
    window, arrived_at = run.summary.window, run.jobs.arrived_at
    return run.jobs.taken((window.start <= arrived_at) & (arrived_at < window.end))


def _same_ids(base: JobTable, other: JobTable) -> Pairs:
    """Return the common ids, in order of submission in the base run (ties by id)."""
    _, mine, theirs = np.intersect1d(base["job_id"], other["job_id"], return_indices=True)
    order = np.argsort(base["submitted_at_s"][mine], kind="stable")
    return Pairs(base.taken(mine[order]), other.taken(theirs[order]))


def _same_jobs(pairs: Pairs) -> Flags:
    """Return which rows are of one job, by its platform, matrix and service time alone.

    Of a job that ran in one of the runs only, or in none, that time is not known (NaN): platform
    and matrix decide alone, so that jobs which one of the runs cancelled are compared by outcome.
    """
    one, two = pairs
    mine, theirs = map(_time_alone, pairs)
    differs = np.abs(mine - theirs) > 1e-6 * np.maximum(np.abs(mine), np.abs(theirs))
    for name in ("platform", "matrix"):
        differs |= one[name] != two[name]
    return ~differs


def _time_alone(jobs: JobTable) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # 0 ÷ 0: it took no time
        return jobs.counted("response_time_s") / jobs["stretch"]


def _compare_metric(metric: Metric, sides: Sides) -> MetricComparison:
    one, two = sides.base.mean(metric), sides.other.mean(metric)
    difference = None if one is None or two is None else two - one
    interval = None if difference is None else _interval(metric, sides, difference)
    if interval is not None and difference is not None:
        interval = interval.widened(difference, sides.together)
    return MetricComparison(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        base=one,
        other=two,
        difference=difference,
        relative=difference / one if difference is not None and one else None,
        interval=interval,
        verdict=None
        if one is None or difference is None
        else verdict_of(metric, one, difference, interval, sides.relevant, sides.twin),
    )


def _interval(metric: Metric, sides: Sides, difference: float) -> Interval | None:
    """Return the interval of a difference: over the seeds, or for single runs over the jobs.

    The difference is that of all jobs. That of the common ones alone is judged job by job, which is
    far more exact, but says something of the difference only where nearly all jobs are common and
    its interval holds it. Else the jobs of both runs are compared as samples.
    """
    base, other, found = sides.base, sides.other, sides.jobs
    if min(len(base.runs), len(other.runs)) > 1:
        return _interval_over_seeds(metric, base, other)
    if len(base.runs) + len(other.runs) > 2:
        return None
    if metric.of_pipelines is not None:
        return _interval_over_pipelines(
            base.ended_pipelines, other.ended_pipelines, metric.of_pipelines, metric.level
        )
    if metric.of_jobs is None:
        return None
    one, two = (known(jobs.counted(metric.of_jobs)) for jobs in (found.base, found.other))
    differences = found.pairs.differences(metric.of_jobs)
    if found.count and len(differences) >= MIN_SHARED * max(len(one), len(two)):
        rng = np.random.default_rng(1)
        if metric.level is not None or found.days >= FEW_DAYS:
            both = found.pairs.values(metric.of_jobs)
            paired = resampled_interval(*both, found.day, metric.level, rng)
        else:
            paired = paired_interval(differences, rng)
        are_all = len(differences) == len(one) == len(two)
        # None: there are so few values that those of each run are too few as samples, too
        if paired is None or are_all or paired.low <= difference <= paired.high:
            return paired
    return welch_interval(one, two) if metric.level is None else None


def _interval_over_pipelines(
    base: PipelineTable, other: PipelineTable, column: str, level: float | None
) -> Interval | None:
    """Return the interval of a difference between the pipelines of two runs.

    If other pipelines came to their end, as newer ones cancelled more of them, the difference is no
    longer that of the same pipelines.

    Args:
        base, other: the pipelines that came to their end in each run.
        column: whose difference it is.
        level: the quantile, 0 to 1; None: the mean.
    """
    names, mine, theirs = np.intersect1d(base["pipeline"], other["pipeline"], return_indices=True)
    if not len(names) == len(base) == len(other):
        return welch_interval(base[column], other[column]) if level is None else None
    order = np.argsort(base["arrived_at_s"][mine], kind="stable")
    one, two = base.taken(mine[order]), other.taken(theirs[order])
    day = np.floor(one["arrived_at_s"] / DAY).astype(np.int64)
    rng = np.random.default_rng(1)
    if level is not None or len(np.unique(day)) >= FEW_DAYS:
        return resampled_interval(one[column], two[column], day, level, rng)
    return paired_interval(two[column] - one[column], rng)


def _interval_over_seeds(metric: Metric, base: SeededRuns, other: SeededRuns) -> Interval | None:
    one = {seed: metric.value(run.summary) for seed, run in base.runs.items()}
    two = {seed: metric.value(run.summary) for seed, run in other.runs.items()}
    if one.keys() == two.keys():
        differences = np.array([(two[s] or 0.0) - (one[s] or 0.0) for s in sorted(one)])
        return mean_of(differences).interval(f"paired t over {len(one)} seeds")
    samples = [np.array([value or 0.0 for value in seeds.values()]) for seeds in (one, two)]
    return difference_of(*samples).interval(f"Welch over {len(one)} and {len(two)} seeds")


def _job_by_job(found: CommonJobs) -> JobByJob:
    base, other = found.pairs
    inverted = [_inverted_dispatches(run) for run in found.by_run]
    shares = [share for share in inverted if share is not None]
    differences = found.pairs.differences("response_time_s")
    return JobByJob(
        common=found.count,
        only_base=len(found.base) - found.count,
        only_other=len(found.other) - found.count,
        median_response_difference_time=_median(differences),
        median_absolute_response_difference_time=_median(np.abs(differences)),
        ended_differently=int((base["outcome"] != other["outcome"]).sum()),
        inverted_dispatch_pairs=math.fsum(shares) / len(shares) if shares else None,
    )


def _inverted_dispatches(pairs: Pairs) -> float | None:
    """Return the share of pairs of jobs dispatched in the opposite order; ties by submission."""
    instants = np.array([run["dispatched_at_s"] for run in pairs])
    one, two = instants[:, ~np.isnan(instants).any(axis=0)]
    if len(one) < 2:
        return None
    in_base = np.argsort(one, kind="stable")
    ranks = np.empty(len(one), dtype=np.int64)
    ranks[np.argsort(two, kind="stable")] = np.arange(len(one))
    return inverted_share(ranks[in_base])


def _agreement(base: SeededRuns, other: SeededRuns, jobs: JobByJob | None) -> Agreement:
    response = next(metric for metric in METRICS if metric.name == "response_time mean")
    one, two = base.mean(response), other.mean(response)
    median = jobs.median_absolute_response_difference_time if jobs else None
    return Agreement(
        mean_response_relative=(two - one) / one if one and two is not None else None,
        median_absolute_relative=median / one if one and median is not None else None,
        same_outcomes=jobs is not None
        and jobs.ended_differently == jobs.only_base == jobs.only_other == 0,
    )


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None
