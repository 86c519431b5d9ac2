"""The algorithms of a scenario's pools, from their ``provisioner`` sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farm.core.errors import InputError
from farm.core.pools.algorithm import Algorithm, PoolSnapshot, ScalingPlan
from farm.plugins.guarded_algorithm import GuardedAlgorithm
from farm.plugins.lookup import checked_arguments, named
from farm.scenario import Pool, Scenario
from farm.scenario.pools import ProvisionerSettings
from farm.units import parse_time
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm
from provisioner.algorithms.sizing import Memoryless, Sizing
from provisioner.faulty_observations import WithFaultyObservations


def algorithms_of(
    scenario: Scenario, own: Mapping[str, Any] | None = None
) -> dict[str, Algorithm[Any]]:
    """Return the algorithm of each provisioned pool, by the pool's name.

    ``own`` has, by pool, the caller's algorithms: a class, an algorithm, or a function from a
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
    return {
        name: _informed(_algorithm(pool, own.get(name)), pool, scenario.seed)
        for name, pool in provisioned.items()
    }


def _informed(algorithm: Algorithm[Any], pool: Pool, seed: int) -> Algorithm[Any]:
    words = pool.signals
    if words is None or not (words.delay or words.wrong):
        return algorithm
    return WithFaultyObservations(algorithm, words.delay, words.wrong, f"{seed} {pool.name}")


class _ByFunction(Memoryless, frozen=True, kw_only=True):
    """A function from a PoolSnapshot to the number of builders wanted, as an algorithm."""

    function: Callable[[PoolSnapshot], float]

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Return the plan for the function's result."""
        return self.towards(snapshot, self.function(snapshot), "by a function of the caller's")


def _algorithm(pool: Pool, own: Any) -> Algorithm[Any]:
    words = pool.provisioner
    if words is None:
        raise LookupError(pool.name)
    where = f"pools.{pool.name}.provisioner"
    if own is None and words.algorithm in ALGORITHMS:
        return _with_options(words.algorithm, words, where)
    kind: Any = own or named(words.algorithm, ALGORITHMS, f"{where}.algorithm", "farm.algorithms")
    if own is None and words.options and not isinstance(kind, type):
        raise InputError(
            f"{where}.{min(words.options)}: {words.algorithm} is a function, without options"
        )
    name = words.algorithm if own is None else getattr(kind, "__name__", type(kind).__name__)
    return GuardedAlgorithm(_own(kind, name, words, where), name, f"{where}.algorithm")


def _own(kind: Any, name: str, words: ProvisionerSettings, where: str) -> Algorithm[Any]:
    """Return the algorithm for the user's class, value or function."""
    if isinstance(kind, type):
        if not issubclass(kind, Sizing):
            raise InputError(
                f"{where}.algorithm: found the class {name}; allowed: a function from a "
                "PoolSnapshot to the builders wanted, or a class derived from Memoryless or Sizing"
            )
        return _with_options(kind, words, where)
    if hasattr(kind, "plan"):
        return kind  # type: ignore[no-any-return]
    checked_arguments(kind, 1, f"{where}.algorithm", f"{name}(snapshot)")
    return _ByFunction(function=kind, min=words.min, max=words.max, interval=words.interval)


def _with_options(
    kind: str | type[Sizing[Any]], words: ProvisionerSettings, where: str
) -> Algorithm[Any]:
    options: dict[str, Any] = {**words.options, "min": words.min, "max": words.max}
    if "interval" in words.model_fields_set:
        options["interval"] = words.interval
    made: Any = make_algorithm(kind, options, where=where, parse_time=parse_time)
    algorithm: Algorithm[Any] = made
    return algorithm
