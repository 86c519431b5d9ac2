"""Calls of provisioning algorithms while the compiled loop has halted."""

from __future__ import annotations

from typing import Any

from farm.core.pools.algorithm import Algorithm, PoolSnapshot
from farm.core.pools.spec import PoolSpec
from farm.sim.fast.kernel import layout

_COUNTS = [name for name in layout.LOOK.names or () if name != "joined"]


class Asking:
    """One pool's algorithm, with its memory."""

    def __init__(self, pool: PoolSpec, algorithm: Algorithm[Any]) -> None:
        self._pool = pool
        self._algorithm = algorithm
        self._memory = algorithm.start()
        #: a declaration holds for its own class only; without one it is called at every tick
        self._says = "stays_until" in vars(type(algorithm))

    def answer(self, farm: layout.Farm, number: int) -> None:
        """Plan for the loop's view of the pool, and write the answer into its arrays."""
        seen, row = farm.looks[number], farm.pools[number]
        at = float(farm.instants["now"][0])
        counts = dict(zip(_COUNTS, seen[_COUNTS].item(), strict=True))
        snapshot = PoolSnapshot(pool=self._pool.name, at=at, slots=self._pool.slots, **counts)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
        row["desired"], row["start"], row["stop"] = plan.desired, plan.start, plan.stop
        row["stays_until"] = at
        if self._says:
            row["stays_until"] = self._algorithm.stays_until(snapshot, self._memory)
        row["answered"] = True
