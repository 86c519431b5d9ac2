"""The fast lane tells the reference's story, event by event and to the last digit."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numba")

from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.contention.laws import ContentionLaw, LinearSlowdown, SlowdownTable
from farm.core.dispatching.balancers import RANKINGS
from farm.core.model import Job, Platform
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime import make_estimator
from farm.results.summary.records import Recorder
from farm.sim.fast.coverage import why_not, why_not_these
from farm.sim.fast.load import load_of
from farm.sim.fast.play import play as play_fast
from farm.sim.fast.story import records, story
from farm.sim.simulation import play
from farm.sim.world import SimulatedWorld
from farm.workload import batches

#: few instants and spans: what happens at one instant is what can go wrong
spans = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.7, 10.0])
platforms = st.sampled_from(
    [Platform("a", True), Platform("b", True), Platform(None, True), Platform("a", False)]
)
laws = st.none() | st.builds(
    ContentionLaw,
    cpu=st.none()
    | st.builds(LinearSlowdown, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.4]))
    | st.just(SlowdownTable((1.0, 1.0, 1.4, 1.8))),
    memory=st.none() | st.just(SlowdownTable((1.0, 1.3))),
    combine=st.sampled_from(["product", "max"]),
)


@st.composite
def pools(draw: st.DrawFn) -> list[PoolSpec]:
    """Draw pools; between them they run every platform."""
    made = []
    kinds = [(("a", "b"), True), (("a",), False), (("a",), True), (("b", "c"), True)]
    for number, (processors, virtualized) in enumerate(kinds):
        broken = draw(st.sampled_from([None, None, lambda n: n % 2 == 0]))
        made.append(
            PoolSpec(
                name=f"p{number}",
                processors=processors,
                virtualized=virtualized,
                builders=draw(st.integers(1 if number < 2 else 0, 3)),
                slots=draw(st.integers(1, 4)),
                boot_time=draw(st.sampled_from([0.0, 0.0, 1.0, 5.0])),
                inter_job_time=draw(st.sampled_from([0.0, 0.0, 1.0])),
                speed=draw(st.sampled_from([1.0, 1.0, 0.7, 3.0])),
                fails_to_boot=broken,
                law=draw(laws),
            )
        )
    return made


@st.composite
def loads(draw: st.DrawFn) -> list[Job]:
    """Draw jobs in bursts."""
    at, made = 0.0, []
    for number in range(draw(st.integers(1, 40))):
        at += draw(st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 7.0]))
        made.append(
            Job(
                id=f"j{number}",
                arrived_at=at,
                service_time=draw(spans),
                declared_time=draw(st.none() | spans),
                platform=draw(platforms),
                level=draw(st.sampled_from([0, 0, 1, -1])),
                score=draw(st.sampled_from([0.0, 1.5])),
                priority=draw(st.sampled_from([0, 100])),
                matrix=draw(st.sampled_from([None, "m", "n"])),
                heavy=draw(st.booleans()),
                memory_heavy=draw(st.booleans()),
                fails=draw(st.booleans()),
            )
        )
    return made


@st.composite
def rules(draw: st.DrawFn) -> SchedulingRules:
    """Draw rules that the fast lane covers."""
    options = PolicyOptions(
        aging_factor=draw(st.sampled_from([0.0, 0.3, 10.0])),
        aging=draw(st.sampled_from(["linear", "matrix"])),
        seed=draw(st.integers(0, 9)),
    )
    return SchedulingRules(
        policy=POLICIES[draw(st.sampled_from(sorted(POLICIES)))](options),
        ranking=RANKINGS[draw(st.sampled_from(sorted(RANKINGS)))],
    )


def compare(
    rules: Any, specs: list[PoolSpec], jobs: list[Job], estimator: str, ends: float
) -> bool:
    """Play in both lanes and compare; return whether the fast one played it."""
    told: list[Any] = []
    recorder = Recorder()
    scheduler = Scheduler(rules, make_estimator(estimator), specs)
    world = SimulatedWorld(specs, batches(jobs), ends_at=ends)
    play(scheduler, world, [recorder, lambda event, commands: told.append((event, list(commands)))])
    assert not why_not(rules, make_estimator(estimator), specs) + why_not_these(rules, jobs)
    load = load_of(rules.policy, make_estimator(estimator), list(batches(jobs)))
    played = play_fast(load, specs, rules.ranking, ends_at=ends, noted=True)
    if played is None:
        return False
    for fast, reference in zip(
        ((event, list(commands)) for event, commands in story(played)), told, strict=True
    ):
        assert fast == reference
    assert records(played) == recorder.records()
    return True


cases = given(
    rules(),
    pools(),
    loads(),
    st.sampled_from(["oracle", "declared"]),
    st.sampled_from([0.0, 0.0, 30.0]),
)


@cases
@settings(max_examples=150, deadline=None)
def test_the_same_story(rules, specs, jobs, estimator, ends_at):
    """Protects equality on farms and loads drawn at random."""
    compare(rules, specs, jobs, estimator, ends_at)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@cases
@settings(max_examples=5000, deadline=None)
def test_the_same_story_thousands_of_times(rules, specs, jobs, estimator, ends_at):
    """Protects equality on many more."""
    compare(rules, specs, jobs, estimator, ends_at)
