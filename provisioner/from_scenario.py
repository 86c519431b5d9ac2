"""From a scenario's ``provisioner:`` sections to the algorithms that size its pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farm.core.errors import InputError
from farm.core.pools.algorithm import Algorithm, PoolSnapshot, ScalingPlan
from farm.plugins.lookup import named
from farm.scenario import Pool, Scenario
from farm.units import parse_duration
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm
from provisioner.algorithms.sizing import Memoryless


def algorithms_of(
    scenario: Scenario, own: Mapping[str, Any] | None = None
) -> dict[str, Algorithm[Any]]:
    """Return who sizes each provisioned pool, by the pool's name.

    ``own`` has, by pool, algorithms of the caller's: a class, an algorithm, or a function from a
    PoolSnapshot to the number of builders wanted. Raises InputError that names the key for an
    unknown algorithm or option.
    """
    own = own or {}
    provisioned = {pool.name: pool for pool in scenario.pools if pool.provisioner is not None}
    if unknown := own.keys() - provisioned.keys():
        raise InputError(
            f"algorithms: found {min(unknown)!r}; allowed: pools with a provisioner section"
            f" ({', '.join(provisioned) or 'there is none'})"
        )
    return {name: _algorithm(pool, own.get(name)) for name, pool in provisioned.items()}


class _ByFunction(Memoryless, frozen=True, kw_only=True):
    """A function from a PoolSnapshot to the number of builders wanted, as an algorithm."""

    function: Callable[[PoolSnapshot], float]

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Return the plan that leads to what the function says."""
        return self.towards(snapshot, self.function(snapshot), "by a function of the caller's")


def _algorithm(pool: Pool, own: Any) -> Algorithm[Any]:
    words = pool.provisioner
    if words is None:
        raise LookupError(pool.name)
    where = f"pools.{pool.name}.provisioner"
    kind: Any = own or words.algorithm
    if own is not None and not isinstance(own, type):
        if not hasattr(own, "plan"):
            return _ByFunction(function=own, min=words.min, max=words.max, interval=words.interval)
        return own  # type: ignore[no-any-return]
    if own is None and kind not in ALGORITHMS:
        kind = named(kind, ALGORITHMS, f"{where}.algorithm", "farm.algorithms")
    options: dict[str, Any] = {**words.options, "min": words.min, "max": words.max}
    if "interval" in words.model_fields_set:
        options["interval"] = words.interval
    made: Any = make_algorithm(kind, options, where=where, parse_time=parse_duration)
    algorithm: Algorithm[Any] = made
    return algorithm
