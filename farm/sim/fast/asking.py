"""Provisioning algorithms, asked while a run is halted, with what its arrays say of their pools.

One that looks at every job is told estimates of work and time, as
``farm.core.pools.observer.PoolObserver`` makes them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from farm.core.pools.algorithm import AnyAlgorithm, PoolSnapshot
from farm.core.pools.spec import PoolSpec
from farm.results.table.columns import Floats
from farm.sim.fast.kernel import layout


class CloseLook:
    """One pool, and the jobs that it may still run."""

    def __init__(self, number: int, estimates: Floats) -> None:
        self._number = number
        self._estimates = estimates
        #: the jobs before have ended
        self._first = 0

    def at(self, snapshot: PoolSnapshot, farm: layout.Farm) -> PoolSnapshot:
        """Return the snapshot with the estimates; a pass over the jobs from the oldest open one."""
        work, oldest_wait, next_slot_time = 0.0, 0.0, 0.0 if snapshot.free_slots else None
        if snapshot.waiting_jobs or next_slot_time is None:
            jobs = self._open_jobs(farm)
            rows = farm.jobs[jobs]
            pool = farm.pools[self._number]
            estimates = self._estimates[jobs] / pool["speed"]
            # every attempt before was lost
            waits = rows["attempts"] == rows["losses"]
            if next_slot_time is None:
                next_slot_time = self._next_slot_time(farm, rows, estimates, ~waits, snapshot.at)
            waits &= farm.serves[pool["group"]][rows["lane"]]
            if waits.any():
                # added up one by one, as the observer does: another order rounds differently
                work = float(np.add.accumulate(estimates[waits])[-1])
                oldest_wait = snapshot.at - float(rows["submitted_at"][waits].min())
        return msgspec.structs.replace(
            snapshot, waiting_work=work, oldest_wait_time=oldest_wait, next_slot_time=next_slot_time
        )

    def _open_jobs(self, farm: layout.Farm) -> np.ndarray:
        """Return the jobs that have arrived and not ended."""
        arrived = int(farm.batches[farm.counts["batch_next"][0]])
        is_open = farm.jobs["ended"][self._first : arrived] == 0
        found: np.ndarray = np.flatnonzero(is_open) + self._first
        self._first = int(found[0]) if len(found) else arrived
        return found

    def _next_slot_time(
        self, farm: layout.Farm, rows: np.ndarray, estimates: Floats, runs: np.ndarray, at: float
    ) -> float | None:
        """Return the least time that a job on the pool's builders is expected to take yet."""
        builders = farm.builders[rows["builder"]]
        ours = runs & (builders["pool"] == self._number) & builders["accepts"]
        if not ours.any():
            return None
        return max(0.0, float((rows["dispatched_at"] + estimates - at)[ours].min()))


_COUNTS = [name for name in layout.LOOK.names or () if name != "joined"]


class Asking:
    """One pool's algorithm, with its memory."""

    def __init__(
        self, number: int, pool: PoolSpec, algorithm: AnyAlgorithm, estimates: Floats
    ) -> None:
        self._number = number
        self._pool = pool
        self._algorithm = algorithm
        self._memory = algorithm.start()
        #: a declaration holds for its own class only; without one it is called at every tick
        self._says = "stays_until" in vars(type(algorithm))
        self._close_look = CloseLook(number, estimates) if algorithm.looks_closely else None

    def answer(self, farm: layout.Farm) -> None:
        """Plan for the loop's view of the pool, and write the answer into its arrays."""
        seen, row = farm.looks[self._number], farm.answers[self._number]
        at = float(farm.instants["now"][0])
        counts = dict(zip(_COUNTS, seen[_COUNTS].item(), strict=True))
        pool = self._pool
        snapshot = PoolSnapshot(
            pool=pool.name, at=at, starts=pool.starts, slots=pool.slots, **counts
        )
        if self._close_look is not None:
            snapshot = self._close_look.at(snapshot, farm)
        plan, self._memory = self._algorithm.plan(snapshot, self._memory)
        row["desired"], row["start"], row["stop"] = plan.desired, plan.start, plan.stop
        row["stays_until"] = at
        if self._says:
            row["stays_until"] = self._algorithm.stays_until(snapshot, self._memory)
        row["answered"] = True
