"""What comparisons and sweeps have found, as values: their answers and tables are made of these."""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.fields import json_name
from farm.results.comparison.compared_metrics import Better, Unit, Verdict
from farm.results.comparison.differences import Difference, difference_in_words
from farm.results.comparison.significance import Interval
from farm.scenario.model import WorkloadKind


class MetricComparison(msgspec.Struct, frozen=True):
    """One metric in the base run and in another; ``relative`` is difference ÷ base."""

    metric: str
    unit: Unit
    better: Better | None
    base: float | None
    other: float | None
    difference: float | None
    relative: float | None
    interval: Interval | None
    verdict: Verdict | None


def not_comparable(*which: str) -> str:
    """Return that runs of open and closed workloads cannot be compared; ``which`` is which."""
    return (
        f"{' and '.join(which)}: in a closed one users wait for verdicts, so that a slower farm is "
        "asked for less; waits, costs and numbers of jobs cannot be compared"
    )


class JobByJob(msgspec.Struct, frozen=True, rename=json_name):
    """The jobs that two runs share. Spans are seconds; None if no job has the value in both."""

    common: int
    only_base: int
    only_other: int
    median_response_difference_time: float | None
    median_absolute_response_difference_time: float | None
    #: jobs that ended with another outcome
    ended_differently: int
    #: share of pairs of jobs that were dispatched in the other order, 0 to 1
    inverted_dispatch_pairs: float | None


class Agreement(msgspec.Struct, frozen=True, rename=json_name):
    """How well two runs of one scenario agree: a live run against its simulation."""

    #: (other - base) ÷ base of mean response time
    mean_response_relative: float | None
    #: per job, relative to the base's mean response time
    median_absolute_relative: float | None
    same_outcomes: bool


class PartComparison(MetricComparison, frozen=True, kw_only=True):
    """The mean wait of a part of the jobs in the base run and in another.

    Intervals are wide enough for all parts of one kind together (Bonferroni).
    """

    #: what the parts are: invocation (the first attribute of fair share), or platform
    of: str
    name: str


class PairComparison(msgspec.Struct, frozen=True):
    """The base run against one other."""

    base: str
    other: str
    worlds: tuple[str, str]
    metrics: tuple[MetricComparison, ...]
    jobs: JobByJob | None
    agreement: Agreement
    note: str = ""
    #: of a farm's twin: its errors, as in its scenario; of two, those of the worse
    twin: dict[str, Any] | None = None
    parts: tuple[PartComparison, ...] = ()
    #: what the scenarios differ in, seeds that are pooled apart; None: they cannot be read
    differences: tuple[Difference, ...] | None = ()
    #: what the runs are called by that, or else by their labels
    base_name: str = ""
    other_name: str = ""
    #: whether their workloads are open, closed or mixed
    workloads: tuple[WorkloadKind, WorkloadKind] = ("open", "open")

    @property
    def not_comparable(self) -> str:
        """Why waits and numbers of jobs of the two cannot be compared; empty: they can."""
        base, other = self.workloads
        if base == other:
            return ""
        return not_comparable(
            f"the workload of {self.base_name or self.base} is {base}",
            f"that of {self.other_name or self.other} {other}",
        )

    @property
    def difference(self) -> str:
        """How the other run differs from the base, in words."""
        return difference_in_words(self.base, self.other, self.worlds, self.differences)


class ComparedRuns(msgspec.Struct, frozen=True):
    """The first run against each of the others."""

    pairs: tuple[PairComparison, ...]
    #: of costs, if all runs have the same; empty: it has no name; left out: they are builder-hours
    currency: str | msgspec.UnsetType = msgspec.UNSET


class SweepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one setting; intervals are of 95 %, None for a single replication."""

    settings: dict[str, str]
    metric: str
    unit: Unit
    replications: int
    mean: float | None
    interval: Interval | None
    median: float | None
    #: the setting that it is compared with; None: it is the baseline
    baseline: dict[str, str] | None = None
    #: mean over the seeds of the setting's value - the baseline's
    difference: float | None = None
    relative: float | None = None
    #: of the difference, widened for all comparisons of the metric together
    difference_interval: Interval | None = None
    p: float | None = None
    verdict: Verdict | None = None


class SweptSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a sweep against their baselines; ``rows`` by setting, then by metric."""

    scenario: str
    axes: dict[str, list[str]]
    seeds: list[int]
    relevant: float
    #: of a farm's twin: its errors, as in its scenario
    twin: dict[str, Any] | None = None
    rows: tuple[SweepRow, ...]
    #: of costs; empty: the pools have prices without one; left out: costs are builder-hours
    currency: str | msgspec.UnsetType = msgspec.UNSET
    #: keys that had no effect at all
    without_effect: tuple[str, ...] = ()
    #: whether the workloads are open, closed or mixed, if not all are open
    workloads: tuple[WorkloadKind, ...] = ()
    #: on a setting, whatever the seed: keys of fair share that no job has
    warnings: tuple[str, ...] = ()

    @property
    def not_comparable(self) -> str:
        """Why waits and numbers of jobs of some settings cannot be compared; empty: they can."""
        if len(self.workloads) < 2:
            return ""
        return not_comparable(f"the workloads are {' and '.join(self.workloads)}")
