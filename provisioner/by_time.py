"""An algorithm whose options depend on the time of the week."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farm.core.pools.algorithm import Algorithm, Memory, PoolSnapshot, ScalingPlan
from farm.scenario.provisioning.times_of_week import Period
from provisioner.algorithms.sizing import EARLY


class ByTime:
    """Plans with the options that hold now: those of the last period that does, or the usual ones.

    ``min`` and ``max`` are those of all times together. What is remembered is passed on from one
    period to the next.
    """

    def __init__(
        self, usual: Algorithm[Any], changes: Sequence[tuple[Period, Algorithm[Any]]]
    ) -> None:
        self._usual, self._changes = usual, changes
        every = [usual, *(algorithm for _, algorithm in changes)]
        self.name = type(usual).__name__
        self.min = min(algorithm.min for algorithm in every)
        self.max = max(algorithm.max for algorithm in every)
        self.interval = usual.interval
        self.looks_closely = usual.looks_closely
        self.before_time_outs = usual.before_time_outs

    def start(self) -> Memory:
        """Return the memory to begin with."""
        memory: Memory = self._usual.start()
        return memory

    def plan(self, snapshot: PoolSnapshot, memory: Memory) -> tuple[ScalingPlan, Memory]:
        """Plan with the options of now."""
        return self._now(snapshot).plan(snapshot, memory)

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return when the algorithm says, or the last look before a period begins or ends.

        That look is not left out: what is remembered then is by the options until then.
        """
        now, at = self._now(snapshot), snapshot.at
        if "stays_until" not in vars(type(now)):  # inherited: a declaration for another class
            return at
        edges = [period.changes_after(at, snapshot.starts) for period, _ in self._changes]
        last_look = min(edges) - self.interval - EARLY
        return max(at, min(now.stays_until(snapshot, memory), last_look))

    def _now(self, snapshot: PoolSnapshot) -> Algorithm[Any]:
        found = self._usual
        for period, algorithm in self._changes:
            if period.holds_at(snapshot.at, snapshot.starts):
                found = algorithm
        return found
