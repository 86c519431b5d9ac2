"""Rollouts: forks of a simulation, the fast lane against the whole thing, and what they draw."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.assembly import make_scheduler
from farm.core.commands import StartJob
from farm.core.events import JobsSubmitted
from farm.core.runtime_estimators import RuntimeDistribution, make_estimator
from farm.core.snapshot import FarmSnapshot, snapshot_of
from farm.scenario import Scenario, parse_scenario
from farm.sim.draws import uniforms
from farm.sim.rollout import Fork, rollouts
from farm.sim.simulation import simulate


def scenario_of(pools, workload, **scheduling) -> Scenario:
    """A scenario with known run times."""
    return parse_scenario(
        {
            "seed": 3,
            "pools": pools,
            "workload": workload,
            "allow_unrunnable": True,
            "scheduling": {"runtime_estimates": "oracle", **scheduling},
        }
    )


def played(scenario: Scenario, after: int) -> tuple[FarmSnapshot, dict[str, float]]:
    """Simulate; return a snapshot ``after`` facts past the last arrival, and every dispatch."""
    scheduler = make_scheduler(scenario)
    facts = []
    simulate(scenario, [lambda event, _: facts.append(event)])
    last = max(n for n, fact in enumerate(facts) if isinstance(fact, JobsSubmitted))
    wanted = min(last + after, len(facts) - 1)
    seen = itertools.count()
    found: list[FarmSnapshot] = []
    dispatched: dict[str, float] = {}

    def watch(event, commands):
        for command in commands:
            if isinstance(command, StartJob):
                dispatched[command.job.id] = event.at
        if next(seen) == wanted:
            found.append(snapshot_of(scheduler, event.at))

    simulate(scenario, [watch], scheduler=scheduler)
    return found[0], dispatched


POOLS = st.lists(
    st.fixed_dictionaries(
        {
            "platform": st.sampled_from(
                [{"processors": ["a"]}, {"processors": ["b"]}, {"processors": ["a", "b"]}]
            ),
            "builders": st.integers(1, 3),
            "slots": st.integers(1, 3),
            "speed": st.sampled_from([0.5, 1.0, 2.0]),
        },
        optional={
            "idle_timeout": st.sampled_from(["5s", "40s"]),
            "boot_time": st.sampled_from(["7s"]),
        },
    ),
    min_size=1,
    max_size=3,
)
SOURCE = st.fixed_dictionaries(
    {
        "platform": st.sampled_from(
            [{"processor": "a"}, {"processor": "b"}, {"virtualized": True}]
        ),
        "count": st.integers(1, 25),
        "poisson": st.fixed_dictionaries({"rate": st.sampled_from(["0.2/s", "2/s"])}),
        "service_time": st.sampled_from(
            [
                {"constant": "10s"},
                {"exponential": {"mean": "20s"}},
                {"uniform": {"min": "1s", "max": "30s"}},
            ]
        ),
        "attributes": st.just({"user": ["x", "y"]}),
    }
)
SCHEDULING = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["fifo", "sjf", "ljf", "ljf-aging", "random"]),
        "fair_share": st.sampled_from([[], ["user"]]),
        "balancer": st.sampled_from(["jenkins", "longest-idle"]),
    }
)


@settings(max_examples=80, deadline=None)
@given(POOLS, st.lists(SOURCE, min_size=1, max_size=2), SCHEDULING, st.integers(0, 40))
def test_certain_rollouts_are_the_simulation(pools, sources, scheduling, after):
    """With certain durations and no more arrivals a fork repeats the simulation to the last bit.

    In both lanes, and from a snapshot that went through JSON.
    """
    pools = [{"name": f"p{n}", **pool} for n, pool in enumerate(pools)]
    pools[0]["platform"] = {"processors": ["a", "b"]}  # somebody can run each job
    scenario = scenario_of(pools, [{"arrivals": source} for source in sources], **scheduling)
    snapshot, dispatched = played(scenario, after)
    snapshot = msgspec.json.decode(msgspec.json.encode(snapshot), type=FarmSnapshot)
    run_times = RuntimeDistribution(make_estimator("oracle"))
    fork = Fork(snapshot=snapshot, scenario=scenario, run_times=run_times, truthful=True)
    for fast in (True, False):
        found = rollouts(fork, count=2, fast=fast, processes=1)
        assert found.jobs == tuple(view.job.id for view in snapshot.waiting)
        truth = [dispatched.get(job, math.inf) for job in found.jobs]
        assert found.dispatch_at.tolist() == [truth, truth]
