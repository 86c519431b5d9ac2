"""Provisioning algorithms as arrays: when they plan, their options, and what they remember."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from farm.core.declarations import own_declaration
from farm.core.pools.algorithm import AnyAlgorithm, PoolSnapshot, first_plan_at
from farm.core.pools.spec import PoolSpec
from farm.emulation.agenda import EARLY_TICK, TICK
from farm.sim.fast.kernel import layout
from farm.sim.setting import Setting
from provisioner.algorithms.predictive import UNKNOWN, Predictive, parts_of
from provisioner.algorithms.sizing import NEVER

MOST_REMEMBERED = 1_000_000
"""Plans that a formula may remember; an algorithm that remembers more is asked."""
_AT_FIRST = {
    "since": NEVER,
    "group": -1,
    "out_at": NEVER,
    "in_at": NEVER,
    "tokens": math.inf,
    "began_at": NEVER,
    "replicas": -1,
    "polled_at": NEVER,
    "synced_at": NEVER,
    "part": -1,
}
"""What algorithms remember before the first plan, if it is not 0."""
_WINDOWS = ("stabilization_window", "scale_up_period", "window")
"""Options with the time for which something is remembered."""


def with_algorithms(farm: layout.Farm, setting: Setting) -> layout.Farm:
    """Return the farm with the algorithms that size its pools."""
    pools, algorithms = setting.pools, setting.algorithms
    made = np.zeros(len(pools), layout.PROVISIONER)
    options = np.zeros(len(pools), layout.OPTIONS)
    memories = np.zeros(len(pools), layout.MEMORY)
    made["planned"], made["next_at"] = -1, math.inf
    for name, value in _AT_FIRST.items():
        memories[name] = value
    sized = [number for number, pool in enumerate(pools) if pool.name in algorithms]
    # of those that plan at one instant, the one that planned longest ago comes first
    sized.sort(key=lambda number: -algorithms[pools[number].name].interval)
    samples = numbers = 0
    for place, number in enumerate(sized):
        algorithm, row = algorithms[pools[number].name], made[number]
        rank = EARLY_TICK if algorithm.before_time_outs else TICK
        row["code"] = (rank << 48) + place
        row["interval"], row["first_plan_at"] = algorithm.interval, first_plan_at(algorithm)
        row["closely"] = algorithm.looks_closely
        row["ignores_jobs"] = getattr(algorithm, "ignores_jobs", False)
        room = _remembered(algorithm)
        formula = own_declaration(algorithm, "formula")
        if formula and room <= MOST_REMEMBERED:
            row["formula"] = layout.FORMULAS.index(formula)
            for name in layout.OPTIONS.names or ():
                options[name][number] = getattr(algorithm, name, 0)
            memories["begin"][number], memories["room"][number] = samples, room
            memories["numbers"][number] = numbers
            samples, numbers = samples + room, numbers + room
    return farm._replace(
        provisioners=made,
        options=options,
        memories=memories,
        samples=np.zeros(samples, layout.SAMPLE),
        numbers=np.full(numbers, UNKNOWN),
    )


def _remembered(algorithm: AnyAlgorithm) -> int:
    """Return how many samples or numbers the algorithm's formula needs room for."""
    window = max((getattr(algorithm, name, 0.0) for name in _WINDOWS), default=0.0)
    plans = window / algorithm.interval
    parts = parts_of(algorithm) if isinstance(algorithm, Predictive) else 0
    # the first plan, this one, and one for rounding
    return max(math.ceil(min(plans, MOST_REMEMBERED)), parts) + 4


_COUNTS = [name for name in layout.LOOK.names or () if name in PoolSnapshot.__struct_fields__]


class Asking:
    """One pool's algorithm, with its memory."""

    def __init__(self, number: int, pool: PoolSpec, algorithm: AnyAlgorithm) -> None:
        self._number = number
        self._pool = pool
        self._algorithm = algorithm
        self._memory = algorithm.start()
        #: without its own ``stays_until`` the algorithm is called at every tick
        self._says = own_declaration(algorithm, "stays_until") is not None

    def answer(self, farm: layout.Farm) -> None:
        """Plan for the loop's view of the pool, and write the answer into its arrays."""
        seen, row = farm.looks[self._number], farm.answers[self._number]
        found: dict[str, Any] = dict(zip(_COUNTS, seen[_COUNTS].item(), strict=True))
        if found["next_slot_time"] == math.inf:
            found["next_slot_time"] = None
        snapshot = PoolSnapshot(pool=self._pool.name, starts=self._pool.starts, **found)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
        row["desired"], row["start"], row["stop"] = plan.desired, plan.start, plan.stop
        row["stays_until"] = snapshot.at
        if self._says:
            row["stays_until"] = self._algorithm.stays_until(snapshot, self._memory)
        row["answered"] = True
