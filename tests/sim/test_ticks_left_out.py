"""Ticks at which no plan can differ are skipped, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import farm
from farm.core.errors import FarmError
from farm.core.model import Job
from farm.core.pools.algorithm import Algorithm, Memory, PoolSnapshot, ScalingPlan
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.scenario.times_of_week import Period
from farm.sim.simulation import play, provision
from farm.sim.world import SimulatedWorld
from farm.testing import small_scenario
from farm.workload import batches
from provisioner.algorithms.gitlab import Gitlab
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm
from provisioner.algorithms.sizing import AnySizing
from provisioner.algorithms.taskcluster import Taskcluster
from provisioner.from_scenario import ByTime
from tests.fixtures.examples import examples
from tests.sim.drawn_algorithms import SPARED, algorithms_named

Story = list[tuple[Any, list[Any]]]
POOL = PoolSpec(name="p", processors=("amd64",), provisioned=True)
JOB = Job(id="a", arrived_at=0.0, service_time=5.0)


class LongEnoughError(Exception):
    """The rest does not matter: jobs may wait forever for a builder."""


class Asked:
    """An algorithm that counts its calls, and never lets ticks be skipped."""

    def __init__(self, algorithm: AnySizing, until: float = 7200.0) -> None:
        self.algorithm, self.plans, self.until = algorithm, 0, until

    def plan(self, snapshot: PoolSnapshot, memory: Memory) -> tuple[ScalingPlan, Memory]:
        """Forward the call."""
        self.plans += 1
        if snapshot.at > self.until:
            raise LongEnoughError
        return self.algorithm.plan(snapshot, memory)  # type: ignore[attr-defined, no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.algorithm, name)


class AskedWhenItMatters(Asked):
    """The same, but it lets the algorithm skip ticks."""

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Forward the call."""
        return self.algorithm.stays_until(snapshot, memory)


def played(
    pools: list[PoolSpec], algorithms: list[Algorithm[Any]], jobs: list[Job], ends_at: float
) -> Story:
    """Simulate the jobs on provisioned pools; return every event with its commands."""
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"), pools)
    world = SimulatedWorld(pools, batches(jobs), ends_at=ends_at)
    names = [pool.name for pool in pools]
    provision(world, scheduler, pools, dict(zip(names, algorithms, strict=True)))
    story: Story = []
    with suppress(LongEnoughError):
        play(scheduler, world, [lambda event, commands: story.append((event, list(commands)))])
    return story


@st.composite
def provisioned_pools(draw: st.DrawFn, name: str) -> PoolSpec:
    """Draw a pool whose builders come and go."""
    lifetime = draw(st.none() | st.sampled_from([5.0, 60.0]))
    return PoolSpec(
        name=name,
        processors=("amd64",),
        provisioned=True,
        slots=draw(st.integers(1, 3)),
        boot_time=draw(st.sampled_from([0.0, 1.0, 12.5])),
        idle_timeout=draw(st.none() | st.sampled_from([0.0, 3.0, 20.0])),
        shutdown_time=draw(st.sampled_from([0.0, 2.0])),
        inter_job_time=draw(st.sampled_from([0.0, 1.0])),
        uses=draw(st.sampled_from([None, 1, 2])),
        lifetime=None if lifetime is None else lambda n: lifetime * n,
    )


@st.composite
def loads(draw: st.DrawFn) -> list[Job]:
    """Draw jobs that come in bursts and with long gaps, often on a tick."""
    gaps = st.sampled_from([0.0, 0.0, 0.25, 1.0, 10.0, 55.5, 150.0])
    times = st.sampled_from([0.0, 0.5, 1.0, 4.0, 30.0])
    drawn = draw(st.lists(st.tuples(gaps, times), min_size=1, max_size=8))
    at, made = 0.0, []
    for number, (gap, time) in enumerate(drawn):
        at += gap
        made.append(Job(id=f"j{number}", arrived_at=at, service_time=time))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
@given(data=st.data())
@examples(8)
def test_the_same_happens_as_with_every_tick(name: str, data: st.DataObject) -> None:
    """Protects every algorithm's declaration of when its plan cannot differ."""
    other = data.draw(st.sampled_from(sorted(ALGORITHMS)))
    algorithms = [data.draw(algorithms_named(kind)) for kind in (name, other)]
    pools = [data.draw(provisioned_pools(pool)) for pool in ("p", "q")]
    jobs = data.draw(loads())
    ends_at = jobs[-1].arrived_at + 300.0  # the last job's end is not the last plan
    runs = [
        played(pools, [kind(algorithm, ends_at) for algorithm in algorithms], jobs, ends_at)
        for kind in (Asked, AskedWhenItMatters)
    ]
    always, when_it_matters = ([told for told in run if told[0].at <= ends_at] for run in runs)
    assert always == when_it_matters


@pytest.mark.parametrize("name", SPARED)
def test_ticks_are_left_out(name: str) -> None:
    """Protects the purpose: in a quiet hour most ticks are skipped."""
    needed = {"fixed": {"builders": 1}, "manual": {"capacity": {0: 1, 1: 2}}}
    options = {"max": 3, "interval": 1, "min": 1, **needed.get(name, {})}
    if name == "target-wait":
        options["objective"] = 60
    algorithm = AskedWhenItMatters(make_algorithm(name, options))
    played([POOL], [algorithm], [JOB], 7200.0)
    assert 2 <= algorithm.plans < 40


@pytest.mark.parametrize("hours", [{7: 1}, {0: 1, 1: 2, 5: 0}, {3: 2, 23: 1}])
def test_the_hours_of_two_days_come_in_time(hours: dict[int, int]) -> None:
    """Protects plans by the hour: each is made at the first tick of its hour."""
    jobs = [Job(id="a", arrived_at=90_000.0, service_time=5.0)]
    made = make_algorithm("manual", {"capacity": hours, "max": 3, "interval": 7})
    two_days = 172_800.0
    algorithms = [kind(made, two_days) for kind in (Asked, AskedWhenItMatters)]
    always, when_it_matters = (played([POOL], [one], jobs, two_days) for one in algorithms)
    assert [one for one in always if one[0].at <= two_days] == when_it_matters
    assert algorithms[1].plans < 40 < algorithms[0].plans


WINDOWS = [
    ("gitlab", {"idle_time": 100}),
    ("buildkite", {"in_cooldown": 100, "scale_only_after_all_events": True}),
    ("target-wait", {"hold": 100, "objective": 60}),
]


@pytest.mark.parametrize(("name", "options"), WINDOWS)
def test_windows_and_cooldowns_end_in_time(name: str, options: dict[str, Any]) -> None:
    """Protects the stop that follows when a window is over and nothing happens at its end."""
    made = make_algorithm(name, {"max": 3, "interval": 1, **options})
    algorithms = [kind(made) for kind in (Asked, AskedWhenItMatters)]
    always, when_it_matters = (played([POOL], [one], [JOB], 300.0) for one in algorithms)
    assert always == when_it_matters
    (stopped,) = [told[0].at for told in always if getattr(told[0], "stop", 0)]
    assert 100 <= stopped <= 110


def test_a_declaration_does_not_hold_for_subclasses() -> None:
    """Protects a user's algorithm that inherits the declaration but plans by the clock."""
    asked: list[float] = []

    class ByTheClock(Taskcluster, frozen=True, kw_only=True):
        def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
            asked.append(snapshot.at)
            return self.towards(snapshot, 1 + (snapshot.at >= 50.5), "by the clock")

    played([POOL], [ByTheClock(max=3)], [JOB], 100.0)
    assert asked == [float(at) for at in range(1, 101)]


@pytest.mark.parametrize("interval", [0.1, 1.0, 2.5])
def test_ticks_keep_their_instants(interval: float) -> None:
    """Protects the instants of ticks after skipped ones: sums of the interval, rounded."""
    ticks: dict[str, set[float]] = {}

    def seen(kind: Callable[[AnySizing], Any], name: str) -> None:
        algorithm = kind(make_algorithm("taskcluster", {"max": 9, "interval": interval}))
        jobs = [Job(id=f"j{n}", arrived_at=13.3 * n, service_time=5.0) for n in range(9)]
        pools = [PoolSpec(name="p", processors=("amd64",), provisioned=True, idle_timeout=1.0)]
        told = played(pools, [algorithm], jobs, 0.0)
        ticks[name] = {event.at for event, _ in told if type(event).__name__ == "PoolPlanned"}

    seen(Asked, "all")
    seen(AskedWhenItMatters, "some")
    assert ticks["some"] == ticks["all"]
    assert len(ticks["all"]) > 9


def test_what_is_remembered_at_a_time_of_the_week_is_by_the_options_until_then() -> None:
    """A throttle that fills from then on was not filled by the ticks that were left out before."""
    usual = Gitlab(max=1, interval=0.1, throttle_limit=1.0, throttle_burst=0)
    later = Gitlab(max=1, min=1, interval=0.1, throttle_limit=0.01, throttle_burst=1)
    algorithm = ByTime(usual, [(Period(start=60.0), later, "from 1m on")])
    job = Job(id="a", service_time=1.0, arrived_at=0.0)
    runs = [
        played([POOL], [kind(algorithm, 300.0)], [job], 300.0)
        for kind in (Asked, AskedWhenItMatters)
    ]
    assert runs[0] == runs[1]


# --- A provisioner plans first when its scenario says, then at every interval ---------------------


def plans(**provisioner):
    """Return when a pool of one builder for each job was planned, and for how many."""
    sizing = {"algorithm": "arc", "max": 9, "interval": "10s", **provisioner}
    load = {"every": "15s", "count": 3, "service_time": "99s"}
    made = farm.simulate(small_scenario({"boot_time": "1s", "provisioner": sizing}, load))
    found = [(e["at_s"], e["desired"]) for e in made.events if e["event"] == "pool-planned"]
    return [one for one in found if one[0] < 60]


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_plans_are_counted_from_the_first(engine, request, monkeypatch):
    """By either engine; absent, the first plan is an interval after the start."""
    if engine == "compiled":
        request.getfixturevalue("kernel")
    else:
        monkeypatch.setattr("farm.sim.fast.kernel.native.is_there", lambda: False)
    assert plans() == [(10.0, 1), (20.0, 2), (40.0, 3)]
    assert plans(first_plan="7s") == [(7.0, 1), (17.0, 2), (37.0, 3)]
    assert plans(first_plan="33s") == [(33.0, 3)]


@pytest.mark.parametrize("given", ["0s", "-1s", "soon"])
def test_an_instant_that_is_none(given):
    """Protects users: one message with the key."""
    with pytest.raises(FarmError, match=r"pools\.p\.provisioner\.first_plan: found"):
        plans(first_plan=given)
