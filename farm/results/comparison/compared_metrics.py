"""The numbers of a summary by which runs are compared, and the verdicts on differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Literal, get_args

import msgspec

from farm.core.errors import InputError, not_among
from farm.results.comparison.significance import Interval
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.results.summary.figures import Figures
from farm.results.summary.pipeline_figures import PipelineFigures
from farm.results.summary.summary import Summary
from farm.scenario import TwinErrors
from farm.scenario.model import NOT_DISTINGUISHABLE

Better = Literal["lower", "higher"]
Direction = Literal["shorter", "longer", "cheaper", "dearer", "less", "more"]
DIRECTIONS = get_args(Direction)
Verdict = (
    Literal["same", "better", "worse", "noise", "small", "not distinguishable", "differs"]
    | Direction
)
"""``noise``: the confidence interval contains zero. ``small``: more than noise, but less than
relevant. ``not distinguishable``: of a twin, smaller than its own errors. ``differs``: neither
direction is better. A direction: the noise is unknown."""
Unit = Literal["s", "count", "ratio", "share"]

WAITS = (
    "waiting_time",
    "response_time",
    "stretch",
    "matrix_response_time",
    "first_failure_time",
    "pipeline_response_time",
    "pipeline_waiting_time",
)
PER_MONTH = "cost_per_month"
LEVELS = {"p50": 0.5, "p95": 0.95}


class Metric(msgspec.Struct, frozen=True):
    """A number of the summary, its better direction, and the column of jobs or pipelines behind it.

    ``level``: it is this quantile of the column; None: its mean.
    """

    name: str
    unit: Unit
    value: Callable[[Figures | Summary], float | None]
    better: Better | None = "lower"
    of_jobs: str | None = None
    of_pipelines: str | None = None
    level: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it is made of waits, which is what a twin's errors are of."""
        return self.name.startswith(WAITS)


def _of_spread(name: str, unit: Unit, *statistics: str, column: str = "") -> Iterator[Metric]:
    """Yield statistics of a distribution; ``column``: of the jobs, behind all but the maximum."""
    for one in statistics:
        value = attrgetter(f"{name}.{one}")
        of_jobs = column if column and one != "max" else None
        yield Metric(f"{name} {one}", unit, value, of_jobs=of_jobs, level=LEVELS.get(one))


def _of_pipelines(name: str, *statistics: str) -> Iterator[Metric]:
    """Yield statistics of a time of pipelines, in seconds; None where no job needs another."""
    for statistic in statistics:
        of_pipelines = attrgetter(f"{name}.{statistic}")

        def value(
            figures: Figures | Summary,
            of_pipelines: Callable[[PipelineFigures], float | None] = of_pipelines,
        ) -> float | None:
            if isinstance(figures.pipelines, PipelineFigures):
                return of_pipelines(figures.pipelines)
            return None

        yield Metric(
            f"pipeline_{name} {statistic}",
            "s",
            value,
            of_pipelines=f"{name}_s",
            level=LEVELS.get(statistic),
        )


def _succeeded_pipelines(figures: Figures | Summary) -> int | None:
    """Return how many pipelines succeeded: their times alone hide how many newer ones cancelled."""
    if isinstance(figures.pipelines, PipelineFigures):
        return figures.pipelines.succeeded
    return None


METRICS: tuple[Metric, ...] = (
    *_of_spread("waiting_time", "s", "mean", "p50", "p95", "max", column="waiting_time_s"),
    *_of_spread("response_time", "s", "mean", "p50", "p95", "max", column="response_time_s"),
    *_of_spread("stretch", "ratio", "mean", "p95", column="stretch"),
    *_of_spread("matrix_response_time", "s", "mean"),
    *_of_spread("first_failure_time", "s", "mean"),
    *_of_pipelines("response_time", "mean", "p50", "p95"),
    # on the critical path
    *_of_pipelines("waiting_time", "mean", "p95"),
    Metric("makespan", "s", lambda s: s.makespan),
    Metric("jobs submitted", "count", lambda s: s.jobs.submitted, None),
    Metric("jobs succeeded", "count", lambda s: s.jobs.succeeded, "higher"),
    Metric("jobs failed", "count", lambda s: s.jobs.failed),
    Metric("jobs cancelled", "count", lambda s: s.jobs.cancelled, None),
    Metric("jobs lost", "count", lambda s: s.jobs.lost),
    Metric("pipelines succeeded", "count", _succeeded_pipelines, "higher"),
    Metric("attempts", "count", lambda s: s.attempts),
    Metric("builder_time", "s", lambda s: s.builder_time),
    Metric("cost", "ratio", lambda s: s.cost),
    Metric(PER_MONTH, "ratio", lambda s: s.cost_per_month),
    Metric("idle_share", "share", lambda s: s.idle_share),
    Metric("throughput", "ratio", lambda s: s.throughput_per_s, "higher"),
    Metric("runs_per_hour", "ratio", lambda s: s.runs_per_hour, "higher"),
    Metric("builders max", "count", lambda s: s.builders.max_running),
    Metric("over_provisioned_time", "s", lambda s: s.builders.over_provisioned_time),
    Metric("utilization", "share", lambda s: s.utilization, "higher"),
    Metric("fairness_index", "ratio", lambda s: s.fairness_index, "higher"),
    Metric("switches", "count", lambda s: s.switches),
    Metric("switching_time", "s", lambda s: s.switching_time),
)


def metrics_named(names: Sequence[str], option: str) -> tuple[Metric, ...]:
    """Return the metrics of these names: waiting_time.mean, mean(waiting_time), waiting time mean.

    Raises InputError for another name.
    """
    known = {metric.name.replace("_", " "): metric for metric in METRICS}
    for name in names:
        if _plain(name) not in known:
            dotted = [one.name.replace(" ", ".") for one in METRICS]
            raise InputError(f"{option}: {not_among(name, dotted)}")
    return tuple(known[_plain(name)] for name in names)


def _plain(name: str) -> str:
    """Return a name in the words of its table: ``waiting time mean``."""
    turned = re.sub(r"^\s*(\w+)\s*\((.*)\)\s*$", r"\2 \1", name.lower())
    return " ".join(re.split(r"[\s._]+", turned.strip()))


def readable(value: float | None, unit: Unit) -> str:
    """Return a value of a metric as readable text."""
    if unit == "s":
        return readable_span(value)
    if unit == "share":
        return readable_percent(value)
    if unit == "count" and value is not None:
        return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.1f}"
    return readable_ratio(value)


def verdict_of(
    metric: Metric,
    base: float,
    difference: float,
    interval: Interval | None,
    relevant: float,
    twin: TwinErrors | None = None,
) -> Verdict:
    """Return the verdict on a difference: better only if it is significant and relevant.

    ``relevant`` is the smallest share of the base that counts; ``twin`` has the errors of a farm's
    twin.
    """
    if difference == 0:
        return "same"
    if twin is not None and metric.waits and twin.hide(base, difference):
        return NOT_DISTINGUISHABLE
    if interval is not None and interval.holds_zero:
        return "noise"
    if abs(difference) < relevant * abs(base):
        return "small"
    if metric.better is None:
        return "differs"
    if interval is None:
        return _direction(metric, up=difference > 0)
    return "better" if (difference < 0) == (metric.better == "lower") else "worse"


def _direction(metric: Metric, *, up: bool) -> Direction:
    if metric.name in ("cost", PER_MONTH):
        return "dearer" if up else "cheaper"
    if metric.unit == "s" and metric.name not in ("builder_time", "over_provisioned_time"):
        return "longer" if up else "shorter"
    return "more" if up else "less"
