"""Jobs that end at one instant: slot by slot, or, as the thesis's pseudo-code does, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.contention.laws import THESIS_TABLE, ContentionLaw
from farm.core.errors import ScenarioError
from farm.core.model import Job
from farm.core.policies import fifo, ljf
from farm.core.pools.spec import PoolSpec
from farm.scenario import load_scenario
from farm.testing import small_scenario
from tests.worlds.virtual import Story

#: four jobs of a second, then two heavy ones of ten
SIX = [
    *(Job(id=f"light-{n}", service_time=1.0, arrived_at=0.0) for n in range(4)),
    *(Job(id=f"heavy-{n}", service_time=10.0, heavy=True, arrived_at=0.0) for n in range(2)),
]


def makespan(jobs: list[Job], **rules: Any) -> float:
    """Play jobs that all come at 0 on two builders of two slots; return when the last ends."""
    pool = PoolSpec(name="node", slots=2, builders=2, law=ContentionLaw(THESIS_TABLE))
    return max(end for _, end in Story().play([pool], jobs, **rules).times().values())


@pytest.mark.parametrize(("together", "found"), [(True, 11.0), (False, 15.0)])
def test_the_thesiss_example(together: bool, found: float) -> None:
    """Freed together, each heavy job has a builder to itself; one by one, both are on the first."""
    assert makespan(SIX, policy=fifo.key, ends_together=together) == pytest.approx(found)


def test_without_ties_there_is_no_difference() -> None:
    """Whatever the policy: the rule is about ends of one instant alone."""
    jobs = [
        Job(id=str(n), service_time=1.0 + n * 2**0.5 % 1 * 9, heavy=n % 3 == 0) for n in range(40)
    ]
    one_by_one, together = (
        makespan(jobs, policy=ljf.key, ends_together=rule) for rule in (False, True)
    )
    assert one_by_one == together


def test_a_scenario_names_the_rule() -> None:
    """Balancers with rules of their own refuse it."""
    scenario = small_scenario(scheduling={"simultaneous_ends": "together"})
    assert load_scenario(scenario).scheduling.simultaneous_ends == "together"
    scenario["scheduling"] |= {"balancer": "fastest"}
    with pytest.raises(ScenarioError, match="simultaneous_ends together with balancer fastest"):
        load_scenario(scenario)
