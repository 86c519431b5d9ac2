"""Twelve loads of eight kinds on which forecasts are judged.

Each is hard in one way: machines that come and go, run times with a heavy tail, queues that share
builders, rules by which jobs overtake, a team that floods the others, lost builders, a kind that
changes, and jobs of which little or much is known beforehand.
"""

from __future__ import annotations

from typing import Any

import msgspec

from farm.scenario import Scenario, parse_scenario

#: declared times are off by a factor that is mostly within e^-1.3 … e^1.3, or within half of that
BADLY_DECLARED: dict[str, object] = {"factor": {"lognormal": {"median": 1.0, "sigma": 1.3}}}
DECLARED: dict[str, object] = {"factor": {"lognormal": {"median": 1.0, "sigma": 0.7}}}
#: by hour of the day
OFFICE_HOURS = [0.3] * 7 + [0.7, 1.4, 2.0, 2.1, 1.8, 1.5, 1.9, 2.0, 1.7, 1.3, 0.9] + [0.5] * 6


class ForecastLoad(msgspec.Struct, frozen=True):
    """A scenario, of which every n-th job is forecast, by some sources of run times."""

    name: str
    scenario: Scenario
    every: int
    run_times: tuple[str, ...]


def lognormal(median: str, sigma: float) -> dict[str, object]:
    """Return a distribution of this median."""
    return {"lognormal": {"median": median, "sigma": sigma}}


def of_kinds(**kinds: tuple[float, str, float]) -> dict[str, object]:
    """Return kinds of jobs: the weight of each, and its median and spread."""
    times = {name: lognormal(median, sigma) for name, (_, median, sigma) in kinds.items()}
    weights = {name: weight for name, (weight, _, _) in kinds.items()}
    return {"kind": weights, "service_time": {"by_kind": times}}


def arrivals(rate: str, length: str, **keys: object) -> dict[str, object]:
    """Return jobs that arrive one by one at random."""
    poisson = {"poisson": {"rate": rate}, "duration": length}
    return {"arrivals": {"declared": BADLY_DECLARED, **poisson, **keys}}


def loads() -> list[ForecastLoad]:
    """Return the loads."""
    return [
        _days_and_nights(),
        _heavy_tails(),
        _two_platforms(),
        *_urgent(),
        _flood(),
        _lost_builders(),
        *_changes(),
        _burst(),
        _many_kinds(),
    ]


def _load(
    name: str,
    pools: list[dict[str, Any]],
    *workload: dict[str, object],
    second: str = "last-3",
    every: int = 1,
    **scheduling: object,
) -> ForecastLoad:
    """Return a load; ``second``: a source of run times beside those that are learned."""
    scenario = parse_scenario(
        {"name": "load", "pools": pools, "workload": [*workload], "scheduling": scheduling}
    )
    return ForecastLoad(name, scenario, every, ("learned", second))


BUILDS = {
    "build": (3.0, "9m", 0.5),
    "test": (5.0, "6m", 0.7),
    "lint": (2.0, "70s", 0.3),
}


def _days_and_nights() -> ForecastLoad:
    sized = {"algorithm": "taskcluster", "min": 1, "max": 16, "interval": "60s"}
    pool = {
        "name": "pool",
        "slots": 1,
        "boot_time": "3m",
        "boot_delay": {"exponential": {"mean": "40s"}},
        "idle_timeout": "12m",
        "provisioner": {**sized, "scaling_ratio": 1},
    }
    jobs = arrivals("75/h", "26h", daily_cycle=OFFICE_HOURS, cycle_start="5h", **of_kinds(**BUILDS))
    return _load("days and nights, autoscaled", [pool], jobs, every=6)


def _heavy_tails() -> ForecastLoad:
    jobs = {
        "poisson": {"rate": "3.4/h"},
        "duration": "12h",
        "size": {5: 3, 12: 3, 25: 2, 40: 1},
        "declared": BADLY_DECLARED,
        **of_kinds(unit=(5.0, "3m", 1.1), integration=(3.0, "6m", 1.3), fuzz=(1.0, "10m", 1.6)),
    }
    jobs["service_time"] = {"max": "5h", **jobs["service_time"]}  # type: ignore[dict-item]
    return _load("heavy tails, in bursts", [{"name": "pool", "builders": 15}], {"matrices": jobs})


def _two_platforms() -> ForecastLoad:
    pools = [
        {"name": "amd64", "builders": 5, "platform": {"processors": ["amd64"]}},
        {"name": "arm64", "builders": 4, "platform": {"processors": ["arm64"]}},
        {"name": "both", "builders": 3, "platform": {"processors": ["amd64", "arm64"]}},
    ]
    platforms = [
        {"processor": "amd64", "weight": 5},
        {"processor": "arm64", "weight": 4},
        {"weight": 1},
    ]
    cycle = [0.9, 1.4, 0.6] * 8
    jobs = arrivals("94/h", "9h", daily_cycle=cycle, platform=platforms, **of_kinds(**BUILDS))
    return _load("two platforms", pools, jobs)


def _urgent() -> list[ForecastLoad]:
    cycle = [0.7, 1.5, 1.2, 0.8, 1.1, 0.7] * 4
    keys = {"level": {0: 9, 1: 1}, "daily_cycle": cycle, "declared": DECLARED}
    jobs = arrivals("62/h", "9h", **keys, **of_kinds(**BUILDS))
    pool = [{"name": "pool", "builders": 8}]
    return [
        _load("shortest first", pool, jobs, second="declared", every=2, policy="sjf"),
        _load("longest first, ageing", pool, jobs, second="declared", every=2, policy="ljf-aging"),
        _load("first in, first out", pool, jobs, second="declared", every=2, policy="fifo"),
    ]


def _flood() -> ForecastLoad:
    calm = arrivals(
        "42/h",
        "10h",
        name="calm",
        declared=DECLARED,
        attributes={"team": {"a": 3, "b": 2}},
        **of_kinds(**BUILDS),
    )
    flood = arrivals(
        "60/h",
        "2h30m",
        name="flood",
        start="2h30m",
        declared=DECLARED,
        attributes={"team": {"c": 1}},
        **of_kinds(**BUILDS),
    )
    return _load(
        "fair share, one floods",
        [{"name": "pool", "builders": 9}],
        calm,
        flood,
        second="declared",
        every=2,
        fair_share=["team"],
    )


def _lost_builders() -> ForecastLoad:
    pool = {
        "name": "pool",
        "builders": 10,
        "boot_time": "2m",
        "boot_delay": {"exponential": {"mean": "60s"}},
        "losses": {"rate": "0.25/h"},
        "failure_rate": 0.1,
    }
    cycle = [0.8, 1.3, 0.9] * 8
    jobs = arrivals("70/h", "9h", daily_cycle=cycle, **of_kinds(**BUILDS))
    return _load("lost builders", [pool], jobs, every=3, retries=3)


def _changes() -> list[ForecastLoad]:
    return [
        _change("a kind doubles", 5.5, 11.0, "60/h", "50/h"),
        _change("a kind doubles, fuller", 6.5, 13.0, "68/h", "55/h"),
    ]


def _change(name: str, at: float, length: float, before: str, after: str) -> ForecastLoad:
    other = {"lint": BUILDS["lint"], "test": BUILDS["test"]}
    cycle = [0.8, 1.3, 0.9, 1.0] * 6
    first = arrivals(
        before,
        f"{at}h",
        name="before",
        daily_cycle=cycle,
        **of_kinds(build=(4.0, "8m", 0.4), **other),
    )
    then = arrivals(
        after,
        f"{length - at}h",
        name="after",
        start=f"{at}h",
        daily_cycle=cycle,
        **of_kinds(build=(4.0, "16m", 0.4), **other),
    )
    return _load(name, [{"name": "pool", "builders": 9}], first, then)


def _burst() -> ForecastLoad:
    """Few long jobs for an hour, then many short ones, and nothing that tells them apart."""
    long = arrivals(
        "16/h", "9h", name="long", declared=DECLARED, service_time=lognormal("25m", 0.6)
    )
    short = {
        "name": "short",
        "every": "20s",
        "start": "1h30m",
        "count": 400,
        "declared": DECLARED,
        "service_time": lognormal("5m", 0.8),
    }
    pool = {"name": "pool", "builders": 16}
    return _load("a burst without kinds", [pool], long, {"arrivals": short}, second="declared")


def _many_kinds() -> ForecastLoad:
    """A hundred and fifty kinds, each with run times that differ little."""
    kinds = {f"k{n}": (1.0 / (1 + n // 10), f"{30 * 1.035**n:.0f}s", 0.15) for n in range(150)}
    cycle = [0.4] * 7 + [1.2, 1.8, 1.8, 1.6, 1.5, 1.7, 1.9, 1.7, 1.4, 1.2, 1.0] + [0.6] * 6
    jobs = arrivals("29/h", "34h", daily_cycle=cycle, cycle_start="6h", **of_kinds(**kinds))
    return _load("many kinds", [{"name": "pool", "builders": 6}], jobs)
