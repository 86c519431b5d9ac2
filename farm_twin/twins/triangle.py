"""Recorded, replayed, synthetic: whether the farm's model is off, or the workload's.

The recorded jobs replayed on the twin show what the farm's model gets wrong: only the farm is
modelled. Jobs drawn like them (``farm_twin.twins.drawn_workload``) and played on the same twin
show, against the replayed ones, what the workload's model leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.fields import json_name
from farm.core.model import Job
from farm.results.comparison.significance import student_quantile
from farm.results.formatting import readable_span
from farm.scenario import load_scenario
from farm.workload import build_jobs
from farm_twin.twins.baseline import MEAN_SHARE, SECONDS, ResampledFigure
from farm_twin.twins.drawn_workload import workload_of
from farm_twin.twins.pool_shapes import PoolLoad

MOST_DRAWS, LEAST_DRAWS, MOST_JOBS = 8, 3, 200_000
"""Synthetic workloads that are played: the fewer, the more jobs they have together."""

Off = Literal["nothing", "farm", "workload", "both", "unknown"]
TEXTS: dict[Off, str] = {
    "nothing": "both models hold: replayed and drawn jobs wait as the recorded ones did",
    "farm": "the farm's model is off: the recorded jobs wait {replayed} on it, where {recorded} "
    "was recorded; drawn jobs wait like them",
    "workload": "the workload's model is off: drawn jobs wait {drawn}, where the recorded ones "
    "wait {replayed} on the same farm; rates by hour and sizes by name are not all there is",
    "unknown": "the recorded jobs wait {replayed} on the twin, where {recorded} was recorded; "
    "synthetic copies of the load vary too much, {drawn}, to test the workload's model",
    "both": "both models are off: the recorded jobs wait {replayed}, where {recorded} was "
    "recorded, and drawn ones {drawn}",
}


class WaitFigures(msgspec.Struct, frozen=True):
    """Waits of jobs, seconds."""

    mean: float
    p50: float
    p95: float


class Synthetic(msgspec.Struct, frozen=True):
    """Waits of several draws, seconds: their means, and where 95 % of other draws lie."""

    mean: ResampledFigure
    p50: ResampledFigure
    p95: ResampledFigure
    draws: int


class Triangle(msgspec.Struct, frozen=True, rename=json_name):
    """Waits of all jobs of a pool, as recorded, replayed and drawn."""

    recorded: WaitFigures
    replayed: WaitFigures
    synthetic: Synthetic
    off: Off
    text: str


def triangle(
    load: PoolLoad, replayed: Floats, play: Callable[[list[Job], int], Floats]
) -> Triangle:
    """Return the triangle of a pool's jobs.

    ``replayed`` are the waits of the recorded jobs on the twin; ``play`` returns those of other
    jobs on it, by arrival, with a seed.
    """
    draws = max(LEAST_DRAWS, min(MOST_DRAWS, MOST_JOBS // len(load.attempts)))
    found = [_waits(play(drawn(load, seed), seed)) for seed in range(1, draws + 1)]
    return judged(_waits(load.waited), _waits(replayed), found)


def drawn(load: PoolLoad, seed: int) -> list[Job]:
    """Return jobs like those of a pool, by arrival."""
    window = (load.begins, load.begins + float(load.arrived[-1]))
    names = sorted({one.platform for one in load.attempts} - {""})
    platform = {"platform": {"processors": names}} if names else {}
    scenario = load_scenario(
        {
            "seed": seed,
            "pools": [{"name": "p", "builders": 1, **platform}],
            "workload": workload_of(load.attempts, window),
            "allow_unrunnable": True,
        }
    )
    return list(build_jobs(scenario))


def _waits(waits: Floats) -> WaitFigures:
    p50, p95 = np.quantile(waits, (0.5, 0.95))
    return WaitFigures(float(waits.mean()), float(p50), float(p95))


def judged(recorded: WaitFigures, replayed: WaitFigures, draws: Sequence[WaitFigures]) -> Triangle:
    """Return the triangle of these waits, and which model is off by their means.

    The limits are those of the baseline check. The replayed jobs count as one draw of the
    workload: if they may be, by how much draws differ from each other, it is not off.
    """
    synthetic = Synthetic(
        mean=_range([one.mean for one in draws]),
        p50=_range([one.p50 for one in draws]),
        p95=_range([one.p95 for one in draws]),
        draws=len(draws),
    )
    mean = synthetic.mean
    farm = _differ(replayed.mean, recorded.mean)
    workload = _differ(mean.value, replayed.mean) and not mean.low <= replayed.mean <= mean.high
    alone: Off = "farm" if farm else "workload"
    off: Off = "both" if farm and workload else alone if farm or workload else "nothing"
    if off == "nothing" and mean.high - mean.low > max(SECONDS, replayed.mean):
        off = "unknown"  # any workload's mean would lie within
    low, high = readable_span(mean.low), readable_span(mean.high)
    text = TEXTS[off].format(
        recorded=readable_span(recorded.mean),
        replayed=readable_span(replayed.mean),
        drawn=f"{readable_span(mean.value)} ({low} to {high})",
    )
    return Triangle(recorded, replayed, synthetic, off, text)


def _range(values: Sequence[float]) -> ResampledFigure:
    """Return the mean, and the prediction interval of one more value (Student's t)."""
    mean, count = float(np.mean(values)), len(values)
    most = student_quantile(0.975, count - 1) * float(np.std(values, ddof=1))
    reach = most * (1 + 1 / count) ** 0.5
    return ResampledFigure(mean, max(0.0, mean - reach), mean + reach)


def _differ(found: float, wanted: float) -> bool:
    return abs(found - wanted) > max(SECONDS, MEAN_SHARE * wanted)
