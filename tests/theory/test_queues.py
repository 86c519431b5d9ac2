"""The simulated farm against queueing theory: means within their confidence intervals.

Twelve replications with seeds 1 to 12; the interval is Student's, at 99.9 %. The seeds are fixed,
so a test that passes passes always. The first jobs of each replication are left out: the farm
starts empty, and theory speaks of the long run. The compiled engine plays what is averaged; it
gives the scheduler's numbers to the last digit (tests/sim/fast).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np
import pytest

import farm
from farm.core.commands import EndJob
from farm.core.events import JobFinished, JobsSubmitted, JobStarted
from farm.scenario import parse_scenario
from farm.sim.simulation import Simulation
from farm.testing import small_scenario

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kernel")]

SEEDS = range(1, 13)
STUDENT = 4.437
"""99.95 % quantile of Student's distribution with 11 degrees of freedom."""
JOBS, WARM_UP = 9_000, 800
COLUMNS = ("submitted_at_s", "started_at_s", "finished_at_s", "waiting_time_s")
EXPONENTIAL = {"exponential": {"mean": "1s"}}


def queue(seed, rate, service_time=EXPONENTIAL, builders=1, jobs=JOBS, **scheduling):
    """Return a scenario: Poisson arrivals (per second) to one pool; mean service time 1 s."""
    arrivals = {"poisson": {"rate": f"{rate}/s"}, "service_time": service_time, "count": jobs}
    arrivals |= {"level": scheduling.pop("level")} if "level" in scheduling else {}
    pool = {"builders": builders, "slots": scheduling.pop("slots", 1)}
    rules = {"runtime_estimates": "oracle", **scheduling}
    return small_scenario(pool, arrivals, scheduling=rules, seed=seed)


def jobs_of(scenario):
    """Return columns of the table of its jobs, in the order of submission."""
    jobs = farm.simulate(scenario, engine="fast").jobs
    order = np.argsort(jobs["submitted_at_s"], kind="stable")
    return {name: np.asarray(jobs[name])[order] for name in COLUMNS}


def waiting(jobs) -> np.ndarray:
    """Return the waiting times after the warm-up."""
    return jobs["waiting_time_s"][WARM_UP:]


def assert_mean(values: Sequence[float], theory: float) -> None:
    """The theory's value lies within the interval, and the interval is narrow enough to matter."""
    half = STUDENT * stdev(values) / math.sqrt(len(values))
    assert abs(fmean(values) - theory) <= half
    assert half < 0.25 * theory


def erlang_c(servers: int, load: float) -> float:
    """Return the probability of waiting in M/M/c; ``load`` is offered, in servers."""
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


MODELS = {
    "M/M/1": ({"rate": 0.8}, 0.8 / (1 - 0.8)),
    "M/M/1, random order": ({"rate": 0.8, "policy": "random"}, 0.8 / (1 - 0.8)),
    "M/M/4, builders": ({"rate": 3.2, "builders": 4}, erlang_c(4, 3.2) / (4 - 3.2)),
    "M/M/4, slots": ({"rate": 3.2, "slots": 4}, erlang_c(4, 3.2) / (4 - 3.2)),
    "M/D/1": ({"rate": 0.8, "service_time": "1s"}, 0.8 / (2 * (1 - 0.8))),
    # Pollaczek-Khinchine: uniform on [0.5, 1.5] has the second moment 13/12
    "M/G/1": (
        {"rate": 0.8, "service_time": {"uniform": {"min": "0.5s", "max": "1.5s"}}},
        0.8 * (13 / 12) / (2 * (1 - 0.8)),
    ),
}


@pytest.mark.parametrize("model", MODELS)
def test_mean_waiting_time(model):
    """The whole chain, from named streams to dispatch, agrees with theory."""
    settings, theory = MODELS[model]
    assert_mean([waiting(jobs_of(queue(seed, **settings))).mean() for seed in SEEDS], theory)


def test_levels_wait_by_cobhams_formula():
    """Static levels are non-preemptive priorities: W0/(1 - rho_h) and W0/((1 - rho_h)(1 - rho))."""
    high, low = [], []
    for seed in SEEDS:
        ends: list[EndJob] = []

        def observe(_, commands, ends=ends):
            ends.extend(command for command in commands if type(command) is EndJob)

        Simulation.of(parse_scenario(queue(seed, rate=0.8, level={1: 1, 0: 3}))).play([observe])
        ends.sort(key=lambda end: end.submitted_at)
        for level, means in ((1, high), (0, low)):
            of_level = [end for end in ends[WARM_UP:] if end.job.level == level]
            means.append(fmean(end.started_at - end.submitted_at for end in of_level))
    assert_mean(high, 0.8 / (1 - 0.2))
    assert_mean(low, 0.8 / ((1 - 0.2) * (1 - 0.8)))


def test_utilization_and_arrivals_that_find_the_farm_busy():
    """Both are the load: time averages and what Poisson arrivals see are the same (PASTA)."""
    busy_share, found_busy = [], []
    for seed in SEEDS:
        jobs = jobs_of(queue(seed, rate=0.7))
        busy = (jobs["finished_at_s"] - jobs["started_at_s"]).sum()
        busy_share.append(busy / jobs["finished_at_s"][-1])
        found_busy.append((waiting(jobs) > 0).mean())
    assert_mean(busy_share, 0.7)
    assert_mean(found_busy, 0.7)


@pytest.mark.parametrize("policy", ["fifo", "sjf", "ljf-aging"])
def test_littles_law(policy):
    """The area under the number of jobs in the farm is the sum of their response times."""
    in_farm, area, last_at = 0, 0.0, 0.0
    waited, queue_area, waiting_jobs = 0.0, 0.0, 0
    responses = 0.0

    def observe(event, commands):
        nonlocal in_farm, area, last_at, responses, waited, queue_area, waiting_jobs
        area += in_farm * (event.at - last_at)
        queue_area += waiting_jobs * (event.at - last_at)
        last_at = event.at
        if isinstance(event, JobsSubmitted):
            in_farm += len(event.jobs)
            waiting_jobs += len(event.jobs)
        in_farm -= isinstance(event, JobFinished)
        waiting_jobs -= isinstance(event, JobStarted)
        for end in commands:
            if isinstance(end, EndJob):
                responses += end.finished_at - end.submitted_at
                waited += end.started_at - end.submitted_at

    scenario = queue(3, rate=3.2, builders=4, policy=policy, jobs=5000)
    Simulation.of(parse_scenario(scenario)).play([observe])
    assert in_farm == waiting_jobs == 0
    assert area == pytest.approx(responses, rel=1e-9)
    assert queue_area == pytest.approx(waited, rel=1e-9)


def test_work_is_conserved_whatever_the_order():
    """One builder empties at the same instants under every policy: no slot idles beside work."""

    def busy_periods(policy):
        jobs = jobs_of(queue(5, rate=0.8, service_time="1s", policy=policy, jobs=4000))
        arrivals = jobs["submitted_at_s"].tolist()
        finishes = sorted(jobs["finished_at_s"].tolist())
        # the farm is empty after a finish if all that arrived until then have finished
        following = zip(finishes, [*arrivals[1:], math.inf], strict=True)
        return [finish for finish, arrival in following if finish < arrival]

    first = busy_periods("fifo")
    assert len(first) > 500
    for policy in ("sjf", "ljf", "random", "ljf-aging", "score"):
        assert busy_periods(policy) == pytest.approx(first, rel=1e-12)


def test_short_jobs_first_waits_least():
    """The mean wait is smallest under sjf and largest under ljf: the purpose of the policies."""
    mean = {
        policy: fmean(waiting(jobs_of(queue(s, rate=0.8, policy=policy))).mean() for s in (1, 2, 3))
        for policy in ("sjf", "fifo", "ljf")
    }
    assert mean["sjf"] < 0.7 * mean["fifo"]
    assert mean["ljf"] > 1.3 * mean["fifo"]
