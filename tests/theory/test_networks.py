"""Jobs that depend on others, and on people, against queueing theory: within their intervals.

As in ``test_queues``: several replications with fixed seeds, Student's interval at 99.9 %, and the
first jobs left out. The scheduler itself plays, so the replications are shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import farm
from farm.testing import small_scenario
from tests.theory.test_queues import SEEDS, WARM_UP, assert_mean, erlang_c

pytestmark = pytest.mark.slow

RELEASES = 4_000
POISSON = {"poisson": {"rate": "1/s"}, "count": RELEASES}


def exponential(mean: float) -> dict[str, Any]:
    """Return an exponential distribution."""
    return {"exponential": {"mean": mean}}


def means(scenario: dict[str, Any], mean: Callable[[farm.Result], float]) -> list[float]:
    """Return the mean of each replication."""
    return [mean(farm.simulate({**scenario, "seed": seed})) for seed in SEEDS]


def after_warm_up(run: farm.Result, column: str, name: str = "") -> np.ndarray:
    """Return a column of the jobs whose id ends so, in the order in which they came."""
    jobs = run.jobs
    chosen = np.char.endswith(jobs["job_id"].astype(str), name)
    order = np.argsort(jobs["submitted_at_s"][chosen], kind="stable")
    return jobs[column][chosen][order][WARM_UP:]


def pipelines(*jobs: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario of pushes whose jobs have a builder of their own each."""
    matrices = {
        **POISSON,
        "service_time": 0,
        "jobs": [{**job, "platform": {"processor": job["name"]}} for job in jobs],
    }
    pools = [
        {"name": job["name"], "platform": {"processor": job["name"]}, "builders": 1} for job in jobs
    ]
    return {"pools": pools, "workload": [{"matrices": matrices}]}


def test_two_stations_in_tandem_are_two_single_queues():
    """Burke: what leaves M/M/1 is Poisson, so the second stage waits as an M/M/1 of its own."""
    stages = {"first": 0.7, "second": 0.6}
    scenario = pipelines(
        {"name": "first", "service_time": exponential(0.7)},
        {"name": "second", "service_time": exponential(0.6), "needs": ["first"]},
    )
    runs = [farm.simulate({**scenario, "seed": seed}) for seed in SEEDS]
    for stage, load in stages.items():
        waits = [after_warm_up(run, "waiting_time_s", stage).mean() for run in runs]
        assert_mean(waits, load / (1 - load) * load)


def test_a_fork_joins_when_the_longer_of_two_ends():
    """Flatto and Hahn: two exponential branches with their own M/M/1 join after (12 - rho)/8 R."""
    load = 0.6
    scenario = pipelines(
        {"name": "one", "service_time": exponential(load)},
        {"name": "two", "service_time": exponential(load)},
        {"name": "join", "service_time": 0, "needs": ["one", "two"]},
    )
    joined = means(scenario, lambda run: after_warm_up(run, "response_time_s", "join").mean())
    assert_mean(joined, (12 - load) / 8 * load / (1 - load))


def test_a_group_with_three_places_is_a_queue_with_three_servers():
    """Erlang C: a cap of n is M/M/n, however many builders there are."""
    arrivals = {**POISSON, "service_time": exponential(2.4), "group": "deploy:3"}
    scenario = small_scenario({"builders": 100}, arrivals)
    waited = means(scenario, lambda run: after_warm_up(run, "blocked_time_s").mean())
    assert_mean(waited, erlang_c(3, 2.4) / (3 - 2.4) * 2.4)


def test_a_job_that_is_repeated_until_it_passes_is_as_long_as_all_of_its_tries():
    """M/G/1 with feedback: tries are geometric, and wait like one job of their length (Takács).

    The number in the queue does not depend on whether a try goes to its end or its head.
    """
    failing, time, rate = 0.3, 0.5, 1.0
    arrivals = {
        **POISSON,
        "service_time": time,
        "fails": failing,
        "reruns": {"passes": 1 - failing, "at_most": 1000},
    }
    runs = [
        farm.simulate({**small_scenario({"builders": 1}, arrivals), "seed": seed}) for seed in SEEDS
    ]
    assert_mean([len(run.jobs) / RELEASES for run in runs], 1 / (1 - failing))
    load = rate * time / (1 - failing)
    second_moment = time**2 * (1 + failing) / (1 - failing) ** 2
    response = time / (1 - failing) + rate * second_moment / (2 * (1 - load))
    assert_mean([run.jobs["response_time_s"].sum() / RELEASES for run in runs], response)


def test_users_with_think_times_are_machines_to_repair():
    """M/M/c//N: the birth-death chain gives the mean response, and how often users push."""
    users, builders, think_time, service_time = 12, 3, 6.0, 1.5
    weights = [1.0]
    for waiting in range(1, users + 1):
        pushes = (users - waiting + 1) / think_time
        weights.append(weights[-1] * pushes * service_time / min(waiting, builders))
    in_farm = sum(n * weight for n, weight in enumerate(weights)) / sum(weights)
    rate = (users - in_farm) / think_time
    arrivals = {
        "every": None,
        "users": {"count": users, "think_time": exponential(think_time)},
        "count": RELEASES,
        "service_time": exponential(service_time),
    }
    scenario = small_scenario({"builders": builders}, arrivals)
    runs = [farm.simulate({**scenario, "seed": seed}) for seed in SEEDS]
    assert_mean([after_warm_up(run, "response_time_s").mean() for run in runs], in_farm / rate)
    instants = [after_warm_up(run, "submitted_at_s") for run in runs]
    assert_mean([(len(some) - 1) / (some[-1] - some[0]) for some in instants], rate)
    assert math.isclose(in_farm / rate + think_time, users / rate)
