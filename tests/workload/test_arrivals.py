"""Arrival instants: rates, limits, the daily cycle."""

import math
import statistics
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.scenario.load import load_scenario
from farm.scenario.workload import Arrivals
from farm.workload.arrivals import instants, instants_of_several
from farm.workload.build import build_jobs
from farm.workload.streams import stream

HOUR = 3600.0


def made(horizon: float = 1e9, **keys: Any) -> list[float]:
    """Return the instants of a source with these keys."""
    releases = Arrivals.model_validate({"service_time": 1, **keys})
    blocks = instants(releases, stream(1, "arrivals"), horizon)
    return [at for block in blocks for at in block.tolist()]


@pytest.mark.parametrize("keys", [{"poisson": {"rate": "2/s"}}, {"every": 0.7}])
def test_blocks_grow_and_instants_stay(keys: dict[str, Any]) -> None:
    """A load of many jobs is drawn in larger pieces, and every arrival stays where it was."""
    releases = Arrivals.model_validate({"service_time": 1, "count": 50_000, **keys})
    small = [*instants(releases, stream(1, "arrivals"), most=100, most_later=100)]
    large = [*instants(releases, stream(1, "arrivals"), most=100)]
    assert np.concatenate(small).tolist() == np.concatenate(large).tolist()
    assert max(map(len, small)) <= 101
    assert max(map(len, large)) > 10_000


def test_poisson_gaps_are_exponential() -> None:
    """The gaps' mean and spread are one over the rate."""
    times = made(poisson={"rate": "2/s"}, count=100_000)
    gaps = [after - before for before, after in pairwise([0.0, *times])]
    assert statistics.fmean(gaps) == pytest.approx(0.5, rel=0.01)
    assert statistics.pstdev(gaps) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("keys", "times"),
    [
        ({"every": "10s", "count": 3}, [0.0, 10.0, 20.0]),
        ({"every": "10s", "duration": "30s"}, [0.0, 10.0, 20.0]),
        ({"every": "10s", "start": "5s", "duration": "21s"}, [5.0, 15.0, 25.0]),
        ({"every": "10s", "start": "5s", "horizon": 25.0}, [5.0, 15.0]),
        ({"every": 0, "count": 3, "start": 2}, [2.0, 2.0, 2.0]),
        ({"every": 0.1, "duration": 0.35}, [0.0, 0.1, 0.2, pytest.approx(0.3)]),
        # twice the rate: half the interval; none in an hour with factor 0
        (
            {"every": "30m", "duration": "3h", "daily_cycle": [1, 0, 2, *[1] * 21]},
            pytest.approx([0.0, 1800.0, 3600.0, 8100.0, 9000.0, 9900.0]),
        ),
    ],
)
def test_fixed_intervals(keys: dict[str, Any], times: list[float]) -> None:
    """The first at `start`, none at the end itself; count, duration and horizon limit."""
    assert made(**keys) == times


def test_the_daily_cycle_shapes_the_rate() -> None:
    """Arrivals by hour of day follow the 24 factors, shifted by the time of day at the start."""
    factors = [0, 1, 2, 3, *[1] * 20]
    times = made(poisson={"rate": "100/h"}, duration="200d", daily_cycle=factors, cycle_start="1h")
    hours = [0] * 24
    for at in times:
        hours[int((at + HOUR) // HOUR) % 24] += 1
    assert hours[0] == 0
    for hour in (1, 2, 3, 12, 23):
        assert hours[hour] == pytest.approx(100 * 200 * factors[hour], rel=0.03)


def test_a_weekly_cycle_has_its_monday() -> None:
    """Hours are those since Monday 00:00, where the source begins on a Wednesday."""
    factors = [0.0] * 168
    factors[3 * 24 + 5] = 1.0
    times = made(every="6m", count=20, weekly_cycle=factors, cycle_start="48h")
    assert times[0] == pytest.approx(29 * HOUR)
    assert times[11] == pytest.approx(29 * HOUR + 7 * 24 * HOUR + 0.1 * HOUR, abs=361)


def test_a_flat_cycle_changes_nothing() -> None:
    """Factors of 1 give the arrivals of no cycle (same stream, same instants)."""
    plain = made(poisson={"rate": "30/m"}, count=5000)
    cycled = made(poisson={"rate": "30/m"}, count=5000, daily_cycle=[1] * 24)
    assert cycled == pytest.approx(plain, rel=1e-9)


@given(
    st.lists(st.floats(0, 5), min_size=24, max_size=24).filter(lambda f: sum(f) > 0.1),
    st.floats(0, 1e6),
    st.floats(0, 86400),
)
def test_instants_ascend(factors: list[float], start: float, cycle_start: float) -> None:
    """Whatever the cycle, instants never decrease and never precede the start."""
    times = made(
        poisson={"rate": "10/h"}, count=50, daily_cycle=factors, start=start,
        cycle_start=cycle_start,
    )  # fmt: skip
    assert len(times) == 50
    assert times[0] >= start
    assert times == sorted(times)


@pytest.mark.parametrize("rate", ["40/h", "900/h"])
@pytest.mark.parametrize("more", [{}, {"cycle_start": "90m", "start": 500.25}, {"count": 70}])
def test_runs_whose_arrivals_are_drawn_together_have_those_of_each_alone(
    rate: str, more: dict[str, Any]
) -> None:
    """A sweep plays the jobs of its seeds, to the last bit."""
    keys = {"poisson": {"rate": rate}, "duration": "3h30m", **more}
    keys["daily_cycle"] = [0.3, 0, 2.5, *[1.1] * 21]
    releases = Arrivals.model_validate({"service_time": 1, **keys})
    streams = [partial(stream, seed, "arrivals") for seed in range(5)]
    together = instants_of_several(releases, streams, math.inf)
    alone = [np.concatenate([*instants(releases, one())]) for one in streams]
    assert [found.tolist() for found in together] == [found.tolist() for found in alone]


def test_the_cycle_follows_the_start_of_the_scenario() -> None:
    """One clock for arrivals and provisioners: without a time of its own the cycle has that one."""
    factors = [0] * 9 + [1] + [0] * 14
    arrivals = {"every": "20m", "count": 3, "service_time": "1s", "daily_cycle": factors}
    for cycle, first in (({}, 1800.0), ({"cycle_start": 0}, 32400.0)):
        scenario = load_scenario(
            {
                "starts": "wed 08:30",
                "pools": [{"name": "p", "builders": 1}],
                "workload": [{"arrivals": {**arrivals, **cycle}}],
            }
        )
        assert next(iter(build_jobs(scenario))).arrived_at == first
