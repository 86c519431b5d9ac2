"""The farm's model is off if replayed jobs wait otherwise, the workload's if drawn ones do."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from farm.columns import Floats
from farm.core.model import Job
from farm_twin.twins.pool_shapes import PoolLoad, load_of
from farm_twin.twins.triangle import Triangle, WaitFigures, drawn, judged, triangle
from tests.fixtures.attempts import HOUR, MONDAY, attempt

SERVERS = 5


def waits_of(jobs: Iterable[tuple[float, float]], servers: int = SERVERS) -> Floats:
    """Return the waits of jobs (arrival, service time), first come, first served."""
    free, found = [0.0] * servers, []
    for arrives, lasts in jobs:
        starts = max(arrives, free[0])
        heapq.heapreplace(free, starts + lasts)
        found.append(starts - arrives)
    return np.array(found)


def loaded(arrivals: Sequence[float]) -> PoolLoad:
    """Return what a farm of five servers recorded of jobs that arrive so (s)."""
    rng = random.Random(2)
    jobs = [(at, rng.expovariate(1 / 600)) for at in sorted(arrivals)]
    named = {"platform": "x", "kind": "build", "user": "ann"}
    found = []
    for number, ((at, lasts), wait) in enumerate(zip(jobs, waits_of(jobs), strict=True)):
        start = MONDAY + at + wait
        found.append(attempt(number, MONDAY + at, start, start + lasts, **named))
    return load_of(found)


def played(load: PoolLoad, servers: int = SERVERS) -> Triangle:
    """Return the triangle on a farm with this number of servers."""

    def play(jobs: Sequence[Job], _: int) -> Floats:
        return waits_of([(one.arrived_at or 0.0, one.service_time) for one in jobs], servers)

    replayed = zip(load.arrived.tolist(), load.ran.tolist(), strict=True)
    return triangle(load, waits_of(replayed, servers), play)


def at_random() -> list[float]:
    """Return arrivals of a Poisson process: three weeks at 80 % load."""
    rng, at, found = random.Random(1), 0.0, []
    while at < 21 * 24 * HOUR:
        at += rng.expovariate(1 / 150)
        found.append(at)
    return found


@pytest.mark.slow
def test_a_farm_and_a_workload_that_are_known():
    """Poisson arrivals on the right number of servers: all three agree."""
    found = played(loaded(at_random()))
    assert found.off == "nothing"
    assert found.replayed.mean == pytest.approx(found.recorded.mean)
    assert found.synthetic.mean.low <= found.recorded.mean <= found.synthetic.mean.high
    assert found.synthetic.draws == 8


@pytest.mark.slow
def test_a_farm_of_another_size():
    """Replayed and drawn jobs wait alike, and not as recorded."""
    found = played(loaded(at_random()), SERVERS + 2)
    assert found.off == "farm"
    assert found.text.startswith("the farm's model is off: the recorded jobs wait")


@pytest.mark.slow
def test_bursts_that_no_rate_shows():
    """Jobs that come thirty at once, without being a matrix, are not drawn like that."""
    found = played(loaded([at + n for at in at_random()[::30] for n in range(30)]))
    assert found.off == "workload"
    assert found.synthetic.mean.high < found.replayed.mean
    assert "rates by hour and sizes by name are not all there is" in found.text


@pytest.mark.parametrize(
    ("recorded", "replayed", "drawn", "off"),
    [
        (100.0, 104.0, [100.0, 110.0, 120.0], "nothing"),
        (100.0, 120.0, [119.0, 120.0, 121.0], "farm"),
        (100.0, 105.0, [149.0, 150.0, 151.0], "workload"),
        (100.0, 105.0, [130.0, 150.0, 170.0], "unknown"),
        (100.0, 150.0, [305.0, 300.0, 310.0], "both"),
        (1.0, 5.0, [4.0, 4.0, 4.0], "nothing"),
        (1.0, 7.0, [1.0, 1.0, 1.0], "both"),
    ],
)
def test_which_model_is_off(recorded: float, replayed: float, drawn: list[float], off: str):
    """By the limits of the baseline check; draws may differ as much among each other."""
    was, again, *draws = (WaitFigures(one, one, one) for one in (recorded, replayed, *drawn))
    assert judged(was, again, draws).off == off


def test_a_seed_draws_the_same_jobs():
    """Jobs are drawn anew with another seed only."""
    load = loaded(at_random()[:200])
    assert drawn(load, 3) == drawn(load, 3) != drawn(load, 4)
    assert drawn(load, 3)[0].attributes == {"user": "ann"}
