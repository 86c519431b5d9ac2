"""Endless simulations, and those too large for memory, end with one message."""

from collections.abc import Iterator
from typing import Any

import pytest

import farm
from farm.app.runs.simulated_run import simulated_run
from farm.core.commands import RequestBuilder, RetireBuilder
from farm.core.errors import FarmError, RunError, ScenarioError
from farm.core.model import Builder
from farm.core.pools.spec import PoolSpec
from farm.scenario import parse_scenario
from farm.sim.too_large import (
    LIVES_ALLOWED,
    LIVES_AT_ONCE,
    LivesAtOneInstant,
    refuse_too_large,
)
from farm.sim.world import SimulatedWorld
from farm.testing import small_scenario

JOBS: dict[str, Any] = {"every": "1m", "count": 3, "service_time": "20s"}
PHASES = {"run": "3650d"}


def tried(pool: dict[str, Any], jobs: dict[str, Any], **sections: Any) -> str:
    """Return the message that refuses the simulation."""
    with pytest.raises(FarmError) as refused:
        farm.simulate(small_scenario(pool, JOBS | jobs, **sections))
    return str(refused.value)


def test_builders_that_come_and_go_at_one_instant() -> None:
    """A fixed pool that replaces idle builders in no time never advances."""
    assert "pools.p.idle_timeout" in tried({"idle_timeout": 0}, {})


def test_the_packaged_example_that_never_ends() -> None:
    """`demo` lasts a hundred years; the message says how to simulate a day of it."""
    with pytest.raises(FarmError, match=r"26,280,000 plans.*phases\.run=1d"):
        farm.simulate("demo")


@pytest.mark.parametrize(
    ("pool", "jobs", "key"),
    [
        ({"builders": 10**9}, {}, "pools.p: "),
        ({"slots": 10**9}, {}, "pools.p: "),
        ({}, {"every": "1ms", "count": None}, "workload.0.arrivals"),
        ({}, {"every": 0, "count": 10**9}, "workload.0.arrivals"),
    ],
)
def test_the_size_of_a_simulation_is_bounded(
    pool: dict[str, Any], jobs: dict[str, Any], key: str
) -> None:
    """Builders, slots and jobs have a stated bound, reported with the key and the value."""
    message = tried(pool, jobs, phases=PHASES)
    assert key in message
    assert "100,000,000" in message


MANY: dict[str, Any] = {"every": "1ms", "service_time": "1s"}
BILLION = 1_000_000_000


def refusal(jobs: int, held: str, sources: int = 1, **pool: Any) -> str:
    """Return the message that refuses as many jobs; empty: they are not too many."""
    source = {"arrivals": {**MANY, "count": jobs // sources}}
    document = {**small_scenario(pool, JOBS), "workload": [source] * sources}
    try:
        refuse_too_large(parse_scenario(document), held)
    except ScenarioError as refused:
        return str(refused)
    return ""


def test_a_billion_jobs_where_only_open_ones_are_held() -> None:
    """More jobs than can be held are allowed where they are let go, and told why where not."""
    assert not refusal(BILLION, held="")
    assert "allowed in a simulation: 1,000,000,000 (shorten" in refusal(BILLION + 1, held="")
    assert not refusal(BILLION // 10, held="phases")
    message = refusal(BILLION, held="phases")
    assert "100,000,000 where all jobs are held (phases), else 1,000,000,000 (shorten" in message


def test_the_jobs_of_all_sources_count() -> None:
    """No source is too large, and together they are."""
    assert not refusal(BILLION, held="", sources=4)
    assert refusal(BILLION + 40, held="", sources=4).endswith("phases.run=1d)")
    assert "workload: found about 1,000,000,040 jobs" in refusal(BILLION + 40, held="", sources=4)


def test_a_billion_builders_for_a_billion_jobs_are_too_many() -> None:
    """Jobs are let go, builders stay in the records: one for each job would not fit."""
    assert "pools.p.uses: found about 1,000,000,000 builders" in refusal(BILLION, held="", uses=1)
    assert not refusal(BILLION, held="", uses=100)


@pytest.mark.usefixtures("kernel")
def test_the_message_names_what_keeps_jobs_in_memory() -> None:
    """A policy that is asked job by job needs them all; the message says so before the run."""
    jobs = {"every": "1ms", "count": 300_000_000}
    document = small_scenario({}, JOBS | jobs, scheduling={"policy": "random"})
    with pytest.raises(ScenarioError, match=r"are held \(a policy that is asked job by job\)"):
        simulated_run(parse_scenario(document), in_full=False)


def test_large_is_not_too_large() -> None:
    """Many builders may go at one instant, if they existed together."""
    lives = LivesAtOneInstant()
    for there in range(50_000, 0, -1):
        lives.gone(7.0, there, 3)
    for _ in range(LIVES_AT_ONCE * 50_000 + LIVES_ALLOWED - 50_000):
        lives.gone(7.0, 1, 3)
    with pytest.raises(RunError, match="time does not advance"):
        lives.gone(7.0, 1, 3)


def test_a_world_notices_that_time_stands_still() -> None:
    """Whatever the cause: here a scheduler that replaces each builder at once."""

    def no_jobs() -> Iterator[tuple[float, tuple[Any, ...]]]:
        yield from ()

    world = SimulatedWorld([PoolSpec(name="p")], no_jobs())
    builder = Builder(id="b", pool="p", index=0)

    def come_and_go() -> None:
        for _ in range(10_000):
            world.execute(RequestBuilder(builder))
            world.execute(RetireBuilder("b"))
            while world.next_event() is not None:
                pass

    with pytest.raises(RunError, match="time does not advance"):
        come_and_go()
