"""Capacity planning: how many builders a scenario needs, or which provisioner settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from farm.app.recorded.played_again import played_again
from farm.app.runs.learning import seeded_estimator
from farm.app.sweeps.axes import Axis, Grid
from farm.results.comparison.compared_values import not_comparable
from farm.results.summary.objectives import Term
from farm.scenario import Scenario
from farm.sim.capacity_planning import PlanOptions, Point, SizePlan, plan, plan_settings
from provisioner.from_scenario import algorithms_of


def plan_pools(
    scenario: Scenario,
    terms: Sequence[Term],
    options: PlanOptions,
    on_point: Callable[[Point], None] = lambda _: None,
    axes: Sequence[Axis] = (),
) -> SizePlan:
    """Return the smallest pools that meet the objective; see ``farm.sim.capacity_planning``.

    With ``axes``: the cheapest of their settings, the pools being sized as the scenario says.
    Raises InputError for statistics that cannot be learned from.
    """
    options = msgspec.structs.replace(
        options, algorithms=algorithms_of, estimator=partial(seeded_estimator, again=played_again)
    )
    scenarios = [scenario]
    if not axes:
        found = plan(scenario, terms, options, on_point)
    else:
        grid = Grid(scenario, axes)
        found = plan_settings(grid.scenarios, list(grid.axes), terms, options, on_point)
        scenarios = list(grid.scenarios.values())
    return msgspec.structs.replace(
        found,
        twin=scenario.twin,
        currency=scenario.unit_of_cost,
        warnings=(*found.warnings, *_on_workloads(scenarios)),
    )


def _on_workloads(scenarios: Sequence[Scenario]) -> Iterator[str]:
    """Yield what must be known of an objective where users wait for verdicts."""
    kinds = list(dict.fromkeys(one.workload_kind for one in scenarios))
    if len(kinds) > 1:
        yield not_comparable(f"the workloads are {' and '.join(kinds)}")
    elif kinds != ["open"]:
        yield (
            f"the workload is {kinds[0]}: users wait for verdicts, so a smaller farm is asked for "
            "less, and waits do not tell it; see runs_per_hour of farm simulate"
        )
