"""The algorithms of a scenario's pools, from their ``provisioner`` sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from farm.core.errors import InputError
from farm.core.pools.algorithm import Algorithm, PoolSnapshot, ScalingPlan
from farm.plugins.guarded_algorithm import GuardedAlgorithm
from farm.plugins.lookup import checked_arguments, named
from farm.scenario import Pool, Scenario
from farm.scenario.provisioning.provisioner import ProvisionerSettings
from farm.units import parse_time
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm
from provisioner.algorithms.sizing import Memoryless, Sizing
from provisioner.by_time import ByTime
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
        return _over_time(words, where, _made_by(words.algorithm))
    kind: Any = own or named(words.algorithm, ALGORITHMS, f"{where}.algorithm", "farm.algorithms")
    name = words.algorithm if own is None else getattr(kind, "__name__", type(kind).__name__)
    if own is not None and not isinstance(kind, type):
        # the options are those of the algorithm that it replaces
        words = ProvisionerSettings.model_validate({**words.limits(), "algorithm": name})
    return GuardedAlgorithm(_own(kind, name, words, where), name, f"{where}.algorithm")


def _own(kind: Any, name: str, words: ProvisionerSettings, where: str) -> Algorithm[Any]:
    """Return the algorithm for the user's class, value or function."""
    if isinstance(kind, type):
        if not issubclass(kind, Sizing):
            raise InputError(
                f"{where}.algorithm: found the class {name}; allowed: a function from a "
                "PoolSnapshot to the builders wanted, or a class derived from Memoryless or Sizing"
            )
        return _over_time(words, where, _made_by(kind))
    if hasattr(kind, "plan"):
        return kind  # type: ignore[no-any-return]
    checked_arguments(kind, 1, f"{where}.algorithm", f"{name}(snapshot)")

    def make(options: dict[str, Any], where: str) -> Algorithm[Any]:
        if more := options.keys() - {"min", "max", "interval"}:
            raise InputError(f"{where}.{min(more)}: {name} is a function, without options")
        return _ByFunction(function=kind, **{"interval": 1.0, **options})

    return _over_time(words, where, make)


#: how often an algorithm plans, and which of a kind it is
_SAME_AT_ALL_TIMES = frozenset({"interval", "compatibility"})
Make = Callable[[dict[str, Any], str], Algorithm[Any]]
"""Makes an algorithm with these options; the text says where they are written."""


def _made_by(kind: str | type[Sizing[Any]]) -> Make:
    def make(options: dict[str, Any], where: str) -> Algorithm[Any]:
        made: Any = make_algorithm(kind, options, where=where, parse_time=parse_time)
        algorithm: Algorithm[Any] = made
        return algorithm

    return make


def _over_time(words: ProvisionerSettings, where: str, make: Make) -> Algorithm[Any]:
    """Return the algorithm with its options, which may be others at some times."""
    options: dict[str, Any] = {**words.options, "min": words.min, "max": words.max}
    if words.interval is not None:
        options["interval"] = words.interval
    usual = make(options, where)
    changes = []
    for number, one in enumerate(words.by_time):
        place = f"{where}.by_time.{number}"
        for key in sorted(_SAME_AT_ALL_TIMES & one.options.keys()):
            raise InputError(f"{place}.{key}: it is the same at all times; give it outside by_time")
        then = make({**options, **one.options}, place)
        changes.append((one.period, then))
    return ByTime(usual, changes) if changes else usual
