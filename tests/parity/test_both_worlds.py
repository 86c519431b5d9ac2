"""The same promises hold in both worlds: simulations predict the farm."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, median

import pytest

LINUX = {"name": "linux", "platform": {"processor": "amd64"}, "builders": 4}


def scenario(*sources, pool=None, speed=100, **scheduling):
    """Return a scenario of one pool; times are such that a live run takes a few seconds."""
    return {
        "seed": 7,
        "pools": [{**LINUX, **(pool or {})}],
        "workload": list(sources),
        "scheduling": {"runtime_estimates": "oracle", **scheduling},
        "live": {"speed": speed},
    }


def one(name, start, seconds, **more):
    """Return a source of one job."""
    return {
        "arrivals": {"name": name, "every": 0, "count": 1, "start": start, "service_time": seconds}
        | more
    }


STEADY = {
    "arrivals": {
        "poisson": {"rate": "0.1/s"},
        "count": 40,
        "service_time": {"uniform": {"min": "20s", "max": "60s"}},
        "fails": 0.2,
    }
}

#: for what another test shows of a live farm as well
live_is_slow = pytest.mark.parametrize(
    "world",
    ["simulated", pytest.param("live", marks=[pytest.mark.live, pytest.mark.slow])],
    indirect=True,
)


@live_is_slow
def test_every_job_ends_once_and_the_log_replays(world):
    """Nothing is lost or reported twice; the recorded events lead to the recorded commands."""
    outcome = world(scenario(STEADY, pool={"slots": 2, "inter_job_time": "2s"}))
    assert len(outcome.ends) == 40
    assert set(outcome.told.values()) == {1}
    assert set(outcome.outcomes) == {"failed", "succeeded"}
    assert all(end.attempts == 1 for end in outcome.ends.values())
    assert outcome.replayed() is None


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("sjf", "urgent b2 a2 b1 a4 a3 a1"),
        pytest.param("score", "urgent b1 a3 b2 a1 a4 a2", marks=pytest.mark.slow),
    ],
)
def test_the_order_of_dispatch(world, policy, order):
    """Jobs come while the only builder is busy: levels first, teams in turn, then the policy."""

    def job(name, start, seconds, team, **more):
        return one(name, start, seconds, attributes={"team": team}, **more)

    jobs = [
        job("first", "0s", "200s", "z"),
        job("a1", "5s", "40s", "a", score=2),
        job("a2", "10s", "10s", "a", score=0),
        job("a3", "15s", "30s", "a", score=3),
        job("a4", "20s", "20s", "a", score=1),
        job("b1", "25s", "25s", "b", score=5),
        job("b2", "30s", "15s", "b", score=4),
        job("urgent", "35s", "50s", "a", level=1),
    ]
    outcome = world(scenario(*jobs, pool={"builders": 1}, policy=policy, fair_share=["team"]))
    assert [name.split("-")[0] for name in outcome.starts] == ["first", *order.split()]
    assert outcome.replayed() is None


@live_is_slow
def test_a_failed_job_ends_its_matrix(world):
    """Running neighbours are stopped long before their time, waiting ones never start."""
    matrix = {
        "matrices": {
            "count": 1,
            "size": 6,
            "every": 0,
            "service_time": {"uniform": {"min": "60s", "max": "2000s"}},
            "fails": 1.0,
        }
    }
    quick = one("quick", "0s", "30s")
    outcome = world(scenario(quick, matrix, pool={"builders": 2, "slots": 2}, fail_fast=True))
    assert outcome.outcomes == {"cancelled": 5, "failed": 1, "succeeded": 1}
    assert len(outcome.starts) == 5
    assert outcome.replayed() is None


@live_is_slow
def test_shared_actions_run_once(world):
    """Two jobs of one action, in flight together: one execution, two ends."""
    twice = {
        "count": 2,
        "every": "10s",
        "service_time": "200s",
        "action": {"reuse": 1, "window": 1},
    }
    outcome = world(scenario({"arrivals": twice}))
    assert len(outcome.starts) == 1
    assert outcome.outcomes == {"succeeded": 2}


@pytest.mark.live
@pytest.mark.timed
def test_response_times_agree(both):
    """Live is never faster than simulated, and not much slower: only messages come in between."""
    steady = {**STEADY["arrivals"], "count": 60, "fails": 0}
    simulated, live = both(scenario({"arrivals": steady}, speed=60))
    expected, found = simulated.response_times(), live.response_times()
    assert expected.keys() == found.keys()
    assert fmean(found.values()) >= fmean(expected.values()) - 1.0
    assert fmean(found.values()) <= 1.25 * fmean(expected.values())
    assert median(found[name] - expected[name] for name in found) < 10.0


@live_is_slow
def test_people_answer_verdicts_and_the_run_ends_after_them(world):
    """Users push again and failed runs are repeated, up to the last; the log replays."""
    people = {
        "arrivals": {
            "name": "users",
            "users": {"count": 3, "think_time": "30s"},
            "count": 9,
            "service_time": "20s",
        }
    }
    flaky = {
        "arrivals": {
            "name": "flaky",
            "every": "5s",
            "count": 4,
            "service_time": "20s",
            "fails": 0.7,
            "reruns": {"think_time": "100s", "passes": 0.5, "at_most": 4},
        }
    }
    outcome = world(scenario(people, flaky))
    pushed = [name for name in outcome.ends if name.startswith("users-")]
    assert len(pushed) == 9
    tries = Counter(name[: len("flaky-000001")] for name in outcome.ends if "flaky-" in name)
    assert sorted(tries.values()) == [2, 2, 3, 5]
    assert set(outcome.told.values()) == {1}
    assert outcome.replayed() is None
