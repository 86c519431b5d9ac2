"""From a scenario's ``provisioner:`` sections to the algorithms that size its pools."""

from __future__ import annotations

from typing import Any

from farm.core.pools.algorithm import Algorithm
from farm.plugins.lookup import named
from farm.scenario import Pool, Scenario
from farm.units import parse_duration
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm


def algorithms_of(scenario: Scenario) -> dict[str, Algorithm[Any]]:
    """Return who sizes each provisioned pool, by the pool's name.

    Raises InputError that names the key for an unknown algorithm or option.
    """
    return {pool.name: _algorithm(pool) for pool in scenario.pools if pool.provisioner is not None}


def _algorithm(pool: Pool) -> Algorithm[Any]:
    words = pool.provisioner
    if words is None:
        raise LookupError(pool.name)
    where = f"pools.{pool.name}.provisioner"
    kind: Any = words.algorithm
    if kind not in ALGORITHMS:
        kind = named(kind, ALGORITHMS, f"{where}.algorithm", "farm.algorithms")
    options: dict[str, Any] = {**words.options, "min": words.min, "max": words.max}
    if "interval" in words.model_fields_set:
        options["interval"] = words.interval
    made: Any = make_algorithm(kind, options, where=where, parse_time=parse_duration)
    algorithm: Algorithm[Any] = made
    return algorithm
