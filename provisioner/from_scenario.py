"""The algorithms of a scenario's pools, from their ``provisioner`` sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from farm.core.declarations import own_declaration
from farm.core.errors import InputError
from farm.core.pools.algorithm import (
    AnyAlgorithm,
    InForce,
    Memory,
    PoolSnapshot,
    ScalingPlan,
    within,
)
from farm.plugins.guards import GuardedAlgorithm, UnusableError
from farm.plugins.lookup import checked_arguments, named
from farm.scenario import Pool, Scenario
from farm.scenario.provisioner import ProvisionerSettings
from farm.scenario.times_of_week import Period
from farm.units import parse_time
from provisioner.algorithms.registry import ALGORITHMS, make_algorithm
from provisioner.algorithms.sizing import EARLY, Memoryless, Sizing, unplanned
from provisioner.faulty_observations import WithFaultyObservations


def algorithms_of(
    scenario: Scenario, own: Mapping[str, object] | None = None
) -> dict[str, AnyAlgorithm]:
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
        name: _algorithm(pool, own.get(name), scenario.seed) for name, pool in provisioned.items()
    }


class _ByFunction(Memoryless, frozen=True, kw_only=True):
    """A function from a PoolSnapshot to the number of builders wanted, as an algorithm."""

    function: Callable[[PoolSnapshot], float]

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Return the plan for the function's result; raises UnusableError for no such number."""
        wanted: object = self.function(snapshot)
        if not isinstance(wanted, Real) or not 0 <= (number := float(wanted)) < math.inf:
            raise UnusableError(f"returned {wanted!r:.60}; allowed: a number of builders")
        return self.towards(snapshot, number, "by a function of the caller's")


def _algorithm(pool: Pool, own: object, seed: int) -> AnyAlgorithm:
    """Return a pool's algorithm: the caller's own, one of the farm's, or the user's by its name."""
    words = pool.provisioner
    if words is None:
        raise LookupError(pool.name)
    where = f"pools.{pool.name}.provisioner"
    name = words.algorithm
    is_known = own is None and name in ALGORITHMS
    kind: object = own
    if is_known:
        kind = name
    elif own is None:
        kind = named(name, ALGORITHMS, f"{where}.algorithm", "farm.algorithms")
    else:
        name = getattr(own, "__name__", type(own).__name__)
        if not isinstance(own, type):
            # the options are those of the algorithm that it replaces
            words = ProvisionerSettings.model_validate({**words.limits(), "algorithm": name})
    made = _made(kind, name, words, where)
    signals = pool.signals
    if signals is not None and (signals.delay or signals.wrong):
        made = WithFaultyObservations(made, signals.delay, signals.wrong, f"{seed} {pool.name}")
    return made if is_known else GuardedAlgorithm(made, name, f"{where}.algorithm")


def _made(kind: Any, name: str, words: ProvisionerSettings, where: str) -> AnyAlgorithm:
    """Return the algorithm of a kind: the name of one of the farm's, a class, value or function."""
    if isinstance(kind, type):
        if not issubclass(kind, Sizing):
            raise InputError(
                f"{where}.algorithm: found the class {name}; allowed: a function from a "
                "PoolSnapshot to the builders wanted, or a class derived from Memoryless or Sizing"
            )
        if unplanned(kind):
            raise InputError(
                f"{where}.algorithm: found the class {name}, which does not say what to do; "
                "allowed: one with plan(snapshot, memory), or derived from Memoryless with "
                "decide(snapshot)"
            )
    elif hasattr(kind, "plan"):
        return kind  # type: ignore[no-any-return]
    elif not isinstance(kind, str):
        checked_arguments(kind, 1, f"{where}.algorithm", f"{name}(snapshot)")

    def make(options: dict[str, Any], where: str) -> AnyAlgorithm:
        if isinstance(kind, str | type):
            return make_algorithm(kind, options, where=where, parse_time=parse_time)
        if more := options.keys() - {"min", "max", "interval", "first_plan"}:
            raise InputError(f"{where}.{min(more)}: {name} is a function, without options")
        return _ByFunction(function=kind, **{"interval": 1.0, **options})

    return _over_time(words, where, make)


#: when an algorithm plans, and which of a kind it is
_SAME_AT_ALL_TIMES = frozenset({"interval", "first_plan", "compatibility"})
Make = Callable[[dict[str, object], str], AnyAlgorithm]
"""Makes an algorithm with these options; the text says where they are written."""


def _over_time(words: ProvisionerSettings, where: str, make: Make) -> AnyAlgorithm:
    """Return the algorithm with its options, which may be others at some times."""
    options: dict[str, object] = {**words.options, "min": words.min, "max": words.max}
    times = {"interval": words.interval, "first_plan": words.first_plan}
    options |= {key: value for key, value in times.items() if value is not None}
    usual = make(options, where)
    changes = []
    for number, one in enumerate(words.by_time):
        place = f"{where}.by_time.{number}"
        for key in sorted(_SAME_AT_ALL_TIMES & one.options.keys()):
            raise InputError(f"{place}.{key}: it is the same at all times; give it outside by_time")
        then = make({**options, **one.options}, place)
        changes.append((one.period, then, one.words))
    return ByTime(usual, changes) if changes else usual


class ByTime:
    """Plans with the options that hold now: those of the last period that does, or the usual ones.

    ``min`` and ``max`` are those of all times together. What is remembered is passed on from one
    period to the next.
    """

    def __init__(
        self, usual: AnyAlgorithm, changes: Sequence[tuple[Period, AnyAlgorithm, str]]
    ) -> None:
        self._usual, self._changes = usual, changes
        every = [usual, *(algorithm for _, algorithm, _ in changes)]
        self.name = type(usual).__name__
        self.min = min(algorithm.min for algorithm in every)
        self.max = max(algorithm.max for algorithm in every)
        self.interval, self.first_plan = usual.interval, usual.first_plan
        self.looks_closely = usual.looks_closely
        self.ignores_jobs = all(getattr(one, "ignores_jobs", False) for one in every)
        self.before_time_outs = usual.before_time_outs

    def within(self, least: int | None, most: int | None) -> ByTime:
        """Return the same with other limits, at all times (None: its own)."""
        changes = [
            (period, within(one, least, most), words) for period, one, words in self._changes
        ]
        return ByTime(within(self._usual, least, most), changes)

    def in_force(self, snapshot: PoolSnapshot) -> InForce:
        """Return which limits hold now, and for which times."""
        now, words = self._now(snapshot)
        return InForce(now.min, now.max, words)

    def start(self) -> Memory:
        """Return the memory to begin with."""
        memory: Memory = self._usual.start()
        return memory

    def plan(self, snapshot: PoolSnapshot, memory: Memory) -> tuple[ScalingPlan, Memory]:
        """Plan with the options of now."""
        now, _ = self._now(snapshot)
        return now.plan(snapshot, memory)

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return when the algorithm says, or the last look before a period begins or ends.

        That look is not left out: what is remembered then is by the options until then.
        """
        now, _ = self._now(snapshot)
        at = snapshot.at
        if own_declaration(now, "stays_until") is None:
            return at
        edges = [period.changes_after(at, snapshot.starts) for period, _, _ in self._changes]
        last_look = min(edges) - self.interval - EARLY
        return max(at, min(now.stays_until(snapshot, memory), last_look))

    def _now(self, snapshot: PoolSnapshot) -> tuple[AnyAlgorithm, str]:
        found, found_words = self._usual, ""
        for period, algorithm, words in self._changes:
            if period.holds_at(snapshot.at, snapshot.starts):
                found, found_words = algorithm, words
        return found, found_words
