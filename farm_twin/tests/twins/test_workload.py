"""A fitted workload has the recorded rates by hour of the week, and sizes by job name."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from farm import load_scenario
from farm.core.errors import TraceError
from farm.core.model import Job
from farm.records.attempt import Attempt
from farm.workload import build_jobs
from farm_twin.bundles.slicing import sliced
from farm_twin.tests.records.test_parts import HOURLY
from farm_twin.twins.drawn_workload import MOST_VALUES, Week, workload_of, workload_text
from tests.fixtures.attempts import HOUR, MONDAY, attempt

WEEK = 168 * HOUR


def attempts_of(arrivals: Sequence[float], seed: int = 1, **fields: Any) -> list[Attempt]:
    """Return attempts of two names and three users, by seconds from Monday's midnight."""
    rng = random.Random(seed)
    found = []
    for number, at in enumerate(sorted(arrivals)):
        kind, (user, team) = rng.choice(["build", "build", "test"]), rng.choice(USERS)
        runs = rng.lognormvariate(5.0, 1.0) if kind == "build" else rng.uniform(10, 20)
        known = {"kind": kind, "user": user, "attributes": {"team": team}, "platform": "x"}
        start = MONDAY + at
        found.append(attempt(number, start, start, start + runs, **known | fields))
    return found


USERS = [("ann", "web"), ("ann", "web"), ("bob", "web"), ("eve", "infra")]


def weekly(seed: int = 1) -> list[float]:
    """Return arrivals of four weeks: working hours, of which Tuesday's are the busiest."""
    rng, found = random.Random(seed), []
    for hour in range(4 * 168):
        day, of_day = divmod(hour % 168, 24)
        mean = (30 if day == 1 else 15) if day < 5 and 8 <= of_day < 18 else 2
        found += [hour * HOUR + rng.random() * HOUR for _ in range(mean)]
    return found


def drawn(attempts: list[Attempt], weeks: int = 4, seed: int = 1) -> list[Job]:
    """Return the jobs of the fitted workload."""
    sources = workload_of(attempts, (MONDAY, MONDAY + weeks * WEEK))
    names = sorted({one.platform for one in attempts})
    pool = {"name": "p", "builders": 1, "platform": {"processors": names}}
    return list(build_jobs(load_scenario({"seed": seed, "pools": [pool], "workload": sources})))


def test_rates_by_hour_of_the_week():
    """Each hour has the recorded number of jobs, as far as a Poisson number can tell."""
    recorded = attempts_of(weekly())
    jobs = [one for seed in range(3) for one in drawn(recorded, seed=seed)]
    was = Counter(int((one.arrived_at - MONDAY) // HOUR) % 168 for one in recorded)
    now = Counter(int((one.arrived_at or 0) // HOUR) % 168 for one in jobs)
    apart = np.array([(now[h] - 3 * was[h]) / (3 * was[h]) ** 0.5 for h in range(168)])
    assert np.abs(apart).max() < 4.5
    assert 0.8 < apart.std() < 1.2
    assert len(jobs) == pytest.approx(3 * len(recorded), rel=0.03)


def test_sizes_by_job_name():
    """Each name has the recorded number, mean and quantiles."""
    recorded, jobs = attempts_of(weekly()), []
    for seed in range(3):
        jobs += drawn(recorded, seed=seed)
    for kind in ("build", "test"):
        was = [one.ran for one in recorded if one.kind == kind]
        now = [one.service_time for one in jobs if one.kind == kind]
        assert len(now) == pytest.approx(3 * len(was), rel=0.05)
        quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
        assert np.quantile(now, quantiles) == pytest.approx(np.quantile(was, quantiles), rel=0.1)
        assert np.mean(now) == pytest.approx(np.mean(was), rel=0.05)


def test_users_stay_in_their_teams():
    """Attributes that belong together stay so, in the recorded mix."""
    mix = Counter(
        (one.attributes["user"], one.attributes["team"]) for one in drawn(attempts_of(weekly()))
    )
    assert set(mix) == set(USERS)
    assert mix["ann", "web"] / mix.total() == pytest.approx(0.5, abs=0.03)


def test_matrices_stay_together():
    """What was released together is a matrix of a recorded size."""
    recorded = attempts_of([n * 1000.0 + 2 * k for n in range(600) for k in range(3 + 2 * (n % 2))])
    for one in recorded:
        one.matrix = f"m{int((one.arrived_at - MONDAY) // 1000)}"
    [source] = workload_of(recorded, (MONDAY, MONDAY + WEEK))
    assert source["matrices"]["size"] == {3: 300, 5: 300}
    assert source["matrices"]["jobs_apart"] == 2.0
    sizes = Counter(Counter(one.matrix for one in drawn(recorded, weeks=1)).values())
    assert set(sizes) <= {1, 2, 3, 4, 5}
    assert sizes[3] + sizes[5] == pytest.approx(600, rel=0.15)


def test_each_platform_has_its_own_load():
    """A source for each, the busiest first, without what never ran."""
    some = attempts_of(range(0, 7200, 60))
    more = attempts_of(range(0, 7200, 30), platform="y")
    never = attempt(0, MONDAY, result="cancelled")
    found = workload_of([*some, *more, never], (MONDAY, MONDAY + 7200))
    platforms = [one["arrivals"]["platform"]["processor"] for one in found]
    assert platforms == ["y", "x"]
    with pytest.raises(TraceError, match="found no attempt that ran; allowed: at least one"):
        workload_of([never], (MONDAY, MONDAY + 7200))


@given(st.floats(0, 2 * WEEK), st.floats(1, 3 * WEEK), st.integers(0, 9))
def test_factors_and_hours_make_all_jobs(begins: float, lasts: float, seed: int):
    """Over the window, each hour's rate times its length is its number of jobs."""
    week = Week((MONDAY + begins, MONDAY + begins + lasts), UTC)
    times = np.random.default_rng(seed).uniform(0, lasts, 50) + MONDAY + begins
    assert week.spent.sum() == pytest.approx(lasts)
    expected = np.array(week.factors(times)) * week.spent * 50 / lasts
    assert expected.sum() == pytest.approx(50, rel=0.001)


def test_chance_is_no_cycle():
    """Poisson arrivals at one rate have factors near one; those of a cycle keep theirs."""
    week, rng = Week((MONDAY, MONDAY + WEEK), UTC), np.random.default_rng(1)
    flat = MONDAY + np.sort(rng.uniform(0, WEEK, 3000))
    assert np.abs(np.array(week.factors(flat)) - 1).max() < 0.15
    counts = np.bincount(((flat - MONDAY) // HOUR).astype(int), minlength=168)
    assert np.abs(counts / counts.mean() - 1).max() > 0.5
    worked = flat[(flat - MONDAY) // HOUR % 24 < 8]
    factors = np.array(week.factors(worked)).reshape(7, 24)
    assert factors[:, :8].min() > 2
    assert factors[:, 8:].max() < 0.05


def test_a_long_list_of_times_keeps_its_mean():
    """There is a limit of values, and their mean is that of all."""
    recorded = attempts_of(weekly())
    [source] = workload_of(recorded, (MONDAY, MONDAY + 4 * WEEK))
    values = source["arrivals"]["service_time"]["by_kind"]["build"]["empirical"]["values"]
    assert len(values) == MOST_VALUES
    assert np.mean(values) == pytest.approx(
        np.mean([one.ran for one in recorded if one.kind == "build"]), rel=0.01
    )


def test_the_text_is_a_section_that_says_what_it_lacks():
    """It is read as what was fitted; hours that were not recorded are told."""
    part = sliced(HOURLY, MONDAY + 2 * HOUR, MONDAY + 26 * HOUR)
    text = workload_text(part, "mine")
    assert yaml.safe_load(text)["workload"] == workload_of(part.attempts, part.arrivals)
    assert "# 144 hours of the week are not in the records" in text
    assert "24 jobs recorded in mine" in text
