"""How many builders a scenario needs, its provisioners included."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from farm.results.summary.objectives import Term
from farm.scenario import Scenario
from farm.sim.planning import Plan, PlanOptions, Point, plan
from provisioner.from_scenario import algorithms_of


def plan_pools(
    scenario: Scenario,
    terms: Sequence[Term],
    options: PlanOptions,
    told: Callable[[Point], None] = lambda _: None,
) -> Plan:
    """Return the smallest pools that meet the objective; see ``farm.sim.planning``."""
    algorithms = algorithms_of(scenario)
    return plan(scenario, terms, msgspec.structs.replace(options, algorithms=algorithms), told)
