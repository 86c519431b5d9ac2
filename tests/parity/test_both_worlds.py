"""The same promises hold in both worlds: simulations predict the farm."""

from __future__ import annotations

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


def test_every_job_ends_once_and_the_log_replays(world):
    """Nothing is lost or reported twice; the recorded events lead to the recorded commands."""
    outcome = world(scenario(STEADY, pool={"slots": 2, "inter_job_time": "2s"}))
    assert len(outcome.ends) == 40
    assert set(outcome.told.values()) == {1}
    assert set(outcome.outcomes) == {"failed", "succeeded"}
    assert all(end.attempts == 1 for end in outcome.ends.values())
    assert outcome.replayed() is None


@pytest.mark.parametrize(
    ("policy", "order"), [("fifo", "abcd"), ("sjf", "cbda"), ("ljf", "adbc"), ("score", "dacb")]
)
def test_the_order_of_dispatch(world, policy, order):
    """Four jobs come while the only builder is busy; then they go in policy order."""
    jobs = [
        one("first", "0s", "200s"),
        one("a", "5s", "40s", score=2),
        one("b", "10s", "20s", score=0),
        one("c", "15s", "10s", score=1),
        one("d", "20s", "30s", score=3),
    ]
    outcome = world(scenario(*jobs, pool={"builders": 1}, policy=policy))
    assert [name.split("-")[0] for name in outcome.starts] == ["first", *order]
    assert outcome.replayed() is None


def test_levels_stand_above_the_policy(world):
    """An urgent long job overtakes short ones."""
    jobs = [
        one("first", "0s", "200s"),
        one("short", "5s", "5s"),
        one("urgent", "10s", "50s", level=1),
    ]
    outcome = world(scenario(*jobs, pool={"builders": 1}, policy="sjf"))
    assert [name.split("-")[0] for name in outcome.starts] == ["first", "urgent", "short"]


def test_teams_take_turns(world):
    """A flood of one team does not hold up the other."""
    jobs = [one("first", "0s", "200s", attributes={"team": "z"})]
    jobs += [one(f"a{n}", f"{5 + n}s", "10s", attributes={"team": "a"}) for n in range(4)]
    jobs += [one(f"b{n}", f"{15 + n}s", "10s", attributes={"team": "b"}) for n in range(2)]
    outcome = world(scenario(*jobs, pool={"builders": 1}, fair_share=["team"]))
    went = [name.split("-")[0] for name in outcome.starts]
    assert went == ["first", "a0", "b0", "a1", "b1", "a2", "a3"]
    assert outcome.replayed() is None


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
