"""A number of builders for each hour of the day."""

from __future__ import annotations

from typing import Literal

from farm.core.pools.algorithm import HOUR, Memory, PoolSnapshot, ScalingPlan
from provisioner.algorithms.fixed import NO_LIMIT
from provisioner.algorithms.sizing import EARLY, FOREVER, Count, Memoryless, Seconds


class Manual(Memoryless, frozen=True, kw_only=True):
    """Keep as many builders as are configured for this hour.

    ``capacity`` is a number, or numbers by the hour from which they hold: ``{0: 5, 8: 40, 18:
    10}``; before the first hour the last one's holds, as the day goes round.

    At the end of an hour a surplus is drained. With ``compatibility: taskcluster`` nothing is ever
    stopped (only idle time-outs end a builder, and the next plan replaces it), as in that project's
    simulator: start = max(0, capacity - (running + requested)).
    """

    ignores_jobs = True
    capacity: Count | dict[int, Count]
    compatibility: Literal["taskcluster"] | None = None
    max: Count = NO_LIMIT
    interval: Seconds = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.capacity, int):
            return
        if not self.capacity:
            raise ValueError("capacity: no hour given; expected such as {0: 5, 8: 40}")
        for hour in self.capacity:
            if not 0 <= hour <= 23:
                raise ValueError(f"capacity: found hour {hour}; expected 0 to 23")

    @property
    def before_time_outs(self) -> bool:
        """The simulator's loop sees a shutdown only after the instant at which it began."""
        return self.compatibility is not None

    def decide(self, snapshot: PoolSnapshot) -> ScalingPlan:
        """Plan for the hour's number."""
        capacity = self.capacity_at(snapshot.hour)
        if self.compatibility is None:
            return self.towards(snapshot, capacity, f"{capacity} at hour {int(snapshot.hour)}")
        why = f"{capacity} at hour {int(snapshot.hour)}; none is stopped"
        return self.towards(snapshot, capacity, why, stop="none")

    def stays_until(self, snapshot: PoolSnapshot, memory: Memory) -> float:
        """Return when the next of the configured hours begins."""
        if isinstance(self.capacity, int):
            return FOREVER
        hour = snapshot.hour
        upcoming = min((start - hour) % 24 or 24.0 for start in self.capacity)
        return snapshot.at + upcoming * HOUR - EARLY

    def capacity_at(self, hour: float) -> int:
        """Return the number configured for an hour of the day."""
        if isinstance(self.capacity, int):
            return self.capacity
        begun = [start for start in self.capacity if start <= hour]
        return self.capacity[max(begun) if begun else max(self.capacity)]
