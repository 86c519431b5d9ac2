"""The function ``plan`` of ``import farm``: the smallest pools that meet an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farm.app.api import Source, load_scenario
from farm.app.forecasts.capacity import plan_pools
from farm.app.sweeps.axes import axis_of
from farm.core.errors import InputError
from farm.results.summary.objectives import check_pools, parse_objective
from farm.sim.capacity_planning import PlanOptions, SizePlan


def plan(
    scenario: Source,
    slo: str,
    vary: Mapping[str, Sequence[object]] | None = None,
    *,
    replications: int = 10,
    confidence: float = 0.95,
    most: int = 10_000,
    **overrides: object,
) -> SizePlan:
    """Find the smallest pools with which a scenario meets an objective.

    Args:
        scenario: as for ``load_scenario``.
        slo: the objective, such as ``"p95(waiting_time) < 5m"``; several are joined by ``and``.
        vary: settings to choose from instead of sizes, as for ``sweep``.
        replications: simulations of each size, with common seeds.
        confidence: at which the mean over replications meets the objective.
        most: builders in a pool.
        overrides: as for ``load_scenario``.

    Returns the plan: ``pools`` are what its sizes refer to, ``best`` is the cheapest point that
    meets the objective (None: there is none, and ``why`` says so), ``points`` is everything that
    was tried. Raises InputError.

    >>> found = farm.plan("mmc", "mean(waiting_time) < 2s", replications=2, workload__0__count=500)
    >>> found.pools, found.best.sizes
    (('single',), (5,))
    """
    terms = parse_objective(slo)
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence: found {confidence:g}; allowed: from 0.5, below 1")
    if not 1 <= replications <= 1000:
        raise InputError(f"replications: found {replications}; allowed: 1 to 1000")
    wanted = load_scenario(scenario, **overrides)
    check_pools(terms, wanted.pools)
    axes = [axis_of(key, values) for key, values in (vary or {}).items()]
    options = PlanOptions(replications=replications, confidence=confidence, most=most)
    return plan_pools(wanted, terms, options, axes=axes)
