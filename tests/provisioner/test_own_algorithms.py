"""Users' provisioning algorithms: by function or class, and never a crash."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.core.errors import FarmError, RunError
from farm.core.pools.algorithm import PoolSnapshot
from farm.testing import small_scenario
from provisioner.from_scenario import algorithms_of

OWN = """
from farm.core.pools.algorithm import ScalingPlan
from provisioner.algorithms.sizing import Count, Memoryless, Seconds, Sizing

def raises(snapshot):
    raise KeyError("no rule for this hour")

def sometimes(snapshot):
    if snapshot.at % 10:
        raise KeyError("no rule for this second")
    return 1

def nan(snapshot):
    return float("nan")

def text(snapshot):
    return "three"

def negative(snapshot):
    return -3

def misspelt(snapshot):
    return snapshot.waiting_job

def two(snapshot):
    return 2

class Plain:
    pass

class Exits(Memoryless, frozen=True, kw_only=True):
    def decide(self, snapshot):
        return ScalingPlan(-1, 10**9)

class NoPlan(Memoryless, frozen=True, kw_only=True):
    interval: Seconds = 5.0

    def decide(self, snapshot):
        return snapshot.waiting_jobs

class Undecided(Memoryless, frozen=True, kw_only=True):
    interval: Seconds = 5.0

class Unplanned(Sizing, frozen=True, kw_only=True):
    interval: Seconds = 5.0

class Forgets(Sizing, frozen=True, kw_only=True):
    def plan(self, snapshot, memory):
        return ScalingPlan(1), {"seen": 1}

class Each(Memoryless, frozen=True, kw_only=True):
    of: Count = 1
    interval: Seconds = 5.0

    def decide(self, snapshot):
        return self.towards(snapshot, self.of, "as told")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user in the working directory."""
    (tmp_path / "sizing_of_mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sizing_of_mine", raising=False)


def sized(name: str, signals: Any = None, **options: Any) -> farm.Result:
    """Simulate ten jobs on a pool that the user's algorithm sizes, from 1 to 4 builders."""
    rule = {"algorithm": f"sizing_of_mine:{name}", "min": 1, "max": 4, "interval": "1s", **options}
    jobs = {"every": "1s", "count": 10, "service_time": "30s"}
    return farm.simulate(small_scenario({"provisioner": rule, "signals": signals or {}}, jobs))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "KeyError: 'no rule for this hour'"),
        ("nan", "returned nan; allowed: a number of builders"),
        ("text", "returned 'three'; allowed: a number of builders"),
        ("negative", "returned -3; allowed: a number of builders"),
        ("misspelt", "did you mean waiting_jobs? there are: at, "),
        ("Exits", "desired -1; allowed: whole numbers from 0 to 4"),
        ("NoPlan", "a plan is a ScalingPlan"),
        ("Forgets", "allowed: a Memory"),
    ],
)
def test_an_algorithm_that_fails_leaves_its_pool_as_it_is(own: None, name: str, said: str) -> None:
    """The run continues with the existing builders, and its end reports what went wrong."""
    found = sized(name, interval="1m")
    assert found.summary["jobs"]["succeeded"] == 10
    assert found.summary["builders"]["max_running"] == 1
    [warning] = found.summary["warnings"]
    assert f"pools.p.provisioner.algorithm: sizing_of_mine:{name} failed" in warning
    assert said in warning


@pytest.mark.parametrize("signals", [{}, {"delay": "1s"}])
def test_an_algorithm_that_always_fails_ends_a_simulation(own: None, signals: Any) -> None:
    """A pool of its least size for the whole run would show nothing of the algorithm."""
    with pytest.raises(RunError, match=r"^pools\.p\.provisioner\.algorithm: sizing") as ended:
        sized("raises", signals)
    assert "raises failed 10 times in a row, at 1s: KeyError: 'no rule" in str(ended.value)
    assert sized("sometimes").summary["jobs"]["succeeded"] == 10


@pytest.mark.parametrize(("name", "options"), [("two", {}), ("Each", {"of": 2})])
def test_an_algorithm_by_function_or_class(own: None, name: str, options: dict[str, Any]) -> None:
    """A function returns how many builders are wanted; a class has options, too."""
    assert sized(name, **options).summary["builders"]["max_running"] == 2


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("Plain", {}, "derived from Memoryless or Sizing"),
        ("Undecided", {}, "allowed: one with plan(snapshot, memory)"),
        ("Unplanned", {}, "allowed: one with plan(snapshot, memory)"),
        ("two", {"of": 2}, "is a function, without options"),
        ("Each", {"off": 2}, "did you mean of"),
        ("three", {}, "has no attribute 'three'"),
    ],
)
def test_an_invalid_algorithm_is_reported_before_the_run(
    own: None, name: str, options: dict[str, Any], said: str
) -> None:
    """One message with the key."""
    with pytest.raises(FarmError, match=r"^pools\.p\.provisioner") as refused:
        sized(name, **options)
    assert said in str(refused.value)


def test_a_snapshot_without_a_size_is_kept_within_the_limits() -> None:
    """Existing builders count, and never less than the pool's minimum."""
    sizing = {"algorithm": "fixed", "builders": 3, "min": 2, "max": 4}
    scenario = farm.load_scenario(small_scenario({"provisioner": sizing}))
    guarded = algorithms_of(scenario, {"p": lambda _: math.nan})["p"]
    plan, _ = guarded.plan(PoolSnapshot(pool="p", at=0.0, idle=1), guarded.start())
    assert (plan.desired, plan.start, plan.stop) == (2, 1, 0)
    plan, _ = guarded.plan(PoolSnapshot(pool="p", at=0.0, idle=3), guarded.start())
    assert (plan.desired, plan.start, plan.stop) == (3, 0, 0)
