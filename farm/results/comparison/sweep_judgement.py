"""The numbers of a sweep: each setting's mean over the seeds, and its difference from a baseline.

All settings are run with the same seeds, so the same jobs arrive at the same instants, and a
difference is tested seed by seed (paired Student's t). For each metric all comparisons with a
baseline form one family for Holm's step-down test, which sets the width of their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from farm.results.comparison.compared_metrics import METRICS, Metric, verdict_of
from farm.results.comparison.compared_values import SweepRow, SweptSettings
from farm.results.comparison.comparison_answer import answer_of_sweep
from farm.results.comparison.significance import Mean, holm_levels, means_of
from farm.results.summary.figures import Figures
from farm.scenario import TwinErrors
from farm.scenario.model import WorkloadKind

Settings = tuple[str, ...]
"""The value of each axis, as text."""


class Sweep(SweptSettings, frozen=True, kw_only=True):
    """The results of a sweep, and what they say."""

    @property
    def answer(self) -> str:
        """One sentence: which setting is best for what it costs."""
        return answer_of_sweep(self)

    def to_json(self) -> bytes:
        """Return the sweep as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


class Played(msgspec.Struct, frozen=True):
    """The runs of a sweep: by setting their figures, in order of the seeds."""

    scenario: str
    axes: Mapping[str, Sequence[str]]
    seeds: Sequence[int]
    summaries: Mapping[Settings, Sequence[Figures]]
    twin: TwinErrors | None = None
    currency: str | msgspec.UnsetType = msgspec.UNSET

    def named(self, settings: Settings) -> dict[str, str]:
        """Return the settings by axis."""
        return dict(zip(self.axes, settings, strict=True))


def judge(played: Played, baseline: Mapping[str, str], relevant: float) -> Sweep:
    """Return the table of a sweep.

    Args:
        played: the runs.
        baseline: for each axis the value that others are compared with, all else being equal.
        relevant: the smallest share of the baseline's mean that counts as a difference.
    """
    by_metric = [_rows_of(metric, played, baseline, relevant) for metric in METRICS]
    rows = tuple(row for cell in zip(*by_metric, strict=True) for row in cell)
    return Sweep(
        scenario=played.scenario,
        axes={axis: list(values) for axis, values in played.axes.items()},
        seeds=list(played.seeds),
        relevant=relevant,
        twin=None if played.twin is None else played.twin.model_dump(exclude_none=True),
        rows=rows,
        currency=played.currency,
        without_effect=_without_effect(played),
        workloads=_workloads(played),
        warnings=_warnings(played),
    )


def _workloads(played: Played) -> tuple[WorkloadKind, ...]:
    """Return the kinds of workloads in the order of the settings; empty: all are open."""
    kinds = dict.fromkeys(one.workload for found in played.summaries.values() for one in found)
    return () if list(kinds) == ["open"] else tuple(kinds)


def _rows_of(
    metric: Metric, played: Played, baseline: Mapping[str, str], relevant: float
) -> list[SweepRow]:
    table = np.array(
        [[metric.value(one) for one in found] for found in played.summaries.values()],
        dtype=np.float64,  # None: NaN
    )
    places = {settings: place for place, settings in enumerate(played.summaries)}
    bases = {
        settings: tuple(baseline.get(key, value) for key, value in played.named(settings).items())
        for settings in places
    }
    with np.errstate(invalid="ignore"):  # without such a value
        means, half = _means(table), (table.shape[1] - 1) / 2
        # not by np.median, which imports masked arrays
        ordered = np.sort(table, axis=1)
        medians = ((ordered[:, math.floor(half)] + ordered[:, math.ceil(half)]) / 2).tolist()
        apart = _means(table - table[[places[base] for base in bases.values()]])
    differences = {
        settings: apart[places[settings]] for settings, base in bases.items() if settings != base
    }
    judged = {s: p for s, m in differences.items() if m is not None and (p := m.p) is not None}
    levels = dict(zip(judged, holm_levels(list(judged.values())), strict=True))
    rows = [
        SweepRow(
            settings=played.named(settings),
            metric=metric.name,
            unit=metric.unit,
            replications=len(played.seeds),
            mean=None if mean is None else mean.value,
            interval=None if mean is None else mean.interval("t"),
            median=None if mean is None else median,
        )
        for settings, mean, median in zip(places, means, medians, strict=True)
    ]
    for settings, difference in differences.items():
        if difference is None:
            continue
        place, base = places[settings], float(np.mean(table[places[bases[settings]]]))
        pair = (*played.summaries[settings], *played.summaries[bases[settings]])
        kinds = {figures.workload for figures in pair}
        method = f"paired t, Holm over {len(judged)}"
        interval = difference.interval(method, levels.get(settings, 0.0))
        rows[place] = msgspec.structs.replace(
            rows[place],
            baseline=played.named(bases[settings]),
            difference=difference.value,
            relative=difference.value / base if base else None,
            difference_interval=interval,
            p=difference.p,
            # an open workload and a closed one cannot be compared
            verdict=verdict_of(metric, base, difference.value, interval, relevant, played.twin)
            if len(kinds) == 1
            else None,
        )
    return rows


def _means(table: np.ndarray) -> list[Mean | None]:
    """Return the mean of each row; None if a replication has no such value."""
    there = np.isfinite(table).all(axis=1).tolist()
    return [mean if whole else None for mean, whole in zip(means_of(table), there, strict=True)]


def _warnings(played: Played) -> tuple[str, ...]:
    """Return the warnings of all runs of a setting, each once."""
    warnings: dict[str, None] = {}
    for figures, *others in played.summaries.values():
        for warning in figures.warnings:
            if all(warning in other.warnings for other in others):
                warnings[warning] = None
    return tuple(warnings)


def _without_effect(played: Played) -> tuple[str, ...]:
    """Return the axes along which, all else being equal, every number stayed the same."""
    numbers = {
        settings: tuple(tuple(metric.value(one) for metric in METRICS) for one in summaries)
        for settings, summaries in played.summaries.items()
    }
    unmoved = []
    for place, (axis, values) in enumerate(played.axes.items()):
        groups: dict[Settings, set[object]] = {}
        for settings, found in numbers.items():
            rest = settings[:place] + settings[place + 1 :]
            groups.setdefault(rest, set()).add(found)
        if len(values) > 1 and all(len(found) == 1 for found in groups.values()):
            unmoved.append(axis)
    return tuple(unmoved)


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
