"""The function ``plan`` of ``import farm``: the smallest pools that meet an objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from farm.app.api import Source, load_scenario
from farm.app.forecasts.capacity import plan_pools
from farm.app.runs.advice import ComputedAdvice, advice_on_scenario
from farm.app.sweeps.axes import axis_of
from farm.core.errors import InputError
from farm.results.summary.objectives import check_pools, parse_objective
from farm.scenario import parse_scenario
from farm.scenario.file.document import parse_document
from farm.sim import capacity_planning
from farm.sim.capacity_planning import PlanOptions


class SizePlan(capacity_planning.SizePlan, frozen=True, kw_only=True, dict=True):
    """What ``plan`` found; ``best`` is None if no size meets the objective.

    >>> found = farm.plan("mmc", "mean(waiting_time) < 2s", replications=2, workload__0__count=500)
    >>> found.best.met, found.replications
    (True, 2)
    """

    #: the scenario as it is, before anything was tried: YAML
    scenario: str

    @cached_property
    def advice(self) -> ComputedAdvice:
        """What would shorten the waits of the farm as it is most for its cost.

        It is simulated when it is first asked for, with the scenario's seed.

        >>> found = farm.plan("quickstart", "p95(waiting_time) < 20m", replications=1)
        >>> [(remedy.pool, remedy.key) for remedy in found.advice.remedies]
        [('linux', 'builders'), ('windows', 'builders')]
        """
        return advice_on_scenario(parse_scenario(parse_document(self.scenario, "plan")))


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
    found = plan_pools(wanted, terms, options, axes=axes)
    return SizePlan(**msgspec.structs.asdict(found), scenario=wanted.to_yaml())
