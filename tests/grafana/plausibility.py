"""Whether what the dashboards show can be true: bounds, order, and sums that must agree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.grafana.conftest import FOLDER, load, panels, plain
from tests.metrics.prometheus import Prometheus

#: what must hold at every instant, of the farm that the tests look at (builders of two slots)
AGREE = {
    "two slots a builder": 'sum(farm_slots) == bool 2 * sum(farm_builders{state!="booting"})',
    "a running job a busy slot": 'sum(farm_jobs_running) == bool sum(farm_slots{state="busy"})',
    "a share a busy slot": 'sum(farm_share_slots) == bool sum(farm_slots{state="busy"})',
    "every job waits, runs or has ended": (
        "sum(farm_jobs_submitted_total) == bool"
        " sum(farm_queue_depth) + sum(farm_jobs_running) + sum(farm_jobs_total)"
    ),
    "a dispatch an attempt": (
        "sum(farm_jobs_dispatched_total) == bool sum(farm_attempts_total) + sum(farm_jobs_running)"
    ),
    "every attempt that ran was timed": (
        "sum(farm_job_waiting_seconds_count) == bool"
        ' sum(farm_attempts_total{result=~"succeeded|failed"})'
    ),
    "response is waiting and service": (
        "abs(sum(farm_job_response_seconds_sum) - sum(farm_job_waiting_seconds_sum)"
        " - sum(farm_job_service_seconds_sum)) <= bool 1e-3 * sum(farm_job_response_seconds_sum)"
    ),
    "who came is there or went": (
        "sum(farm_builders_joined_total) >= bool sum(farm_builders_ended_total)"
    ),
    "builders boot at least as long as they should": (
        "sum(farm_builder_boot_seconds_sum) >= bool 59.9 * sum(farm_builder_boot_seconds_count)"
    ),
    "the pool is of an allowed size": (
        "(min(farm_provisioner_desired_builders) >= bool 1)"
        " * (max(farm_provisioner_desired_builders) <= bool 6)"
    ),
}

Series = dict[str, Any]


def implausible(
    prometheus: Prometheus, start: float, end: float, step: float, **values: str
) -> Iterator[str]:
    """Yield what cannot be true of what is shown between these instants (Unix seconds)."""
    for what, expr in AGREE.items():
        found = [v for one in prometheus.query_range(expr, start, end, step) for v in one["values"]]
        if not found or any(float(value) != 1 for _, value in found):
            yield f"{what}: {expr}: {found[:5]}"
    for path in sorted(FOLDER.glob("*.json")):
        for panel in panels(load(path)):
            curves = {
                target.get("legendFormat", ""): prometheus.query_range(
                    plain(target["expr"], **values), start, end, step
                )
                for target in panel["targets"]
            }
            for wrong in (*_beyond_bounds(panel, curves), *_out_of_order(curves)):
                yield f"{path.stem} / {panel['title']}: {wrong}"


def _beyond_bounds(panel: Series, curves: dict[str, list[Series]]) -> Iterator[str]:
    """Find numbers below the panel's least, or above its most."""
    least, most = (panel["fieldConfig"]["defaults"].get(end) for end in ("min", "max"))
    for legend, found in curves.items():
        for value in (v for series in found for v in _numbers(series).values()):
            if value < (least or 0.0) or value > (math.inf if most is None else most + 1e-9):
                yield f"{legend}: {value}"


def _out_of_order(curves: dict[str, list[Series]]) -> Iterator[str]:
    """Find quantiles that are above a higher one of the same series at the same instant."""
    ordered: dict[str, list[tuple[int, list[Series]]]] = {}
    for legend, found in curves.items():
        if form := re.fullmatch(r"(.*)p(\d+)", legend):
            ordered.setdefault(form[1], []).append((int(form[2]), found))
    for family in ordered.values():
        family.sort(key=lambda pair: pair[0])
        for (low, lower), (high, higher) in pairwise(family):
            above = {_name(series): _numbers(series) for series in higher}
            for series in lower:
                for at, value in _numbers(series).items():
                    if value > above.get(_name(series), {}).get(at, math.inf) + 1e-9:
                        yield f"p{low} {value} above p{high} at {at}"


def _numbers(series: Series) -> dict[float, float]:
    values = {at: float(value) for at, value in series["values"]}
    return {at: value for at, value in values.items() if not math.isnan(value)}


def _name(series: Series) -> str:
    return str(sorted(series["metric"].items()))
