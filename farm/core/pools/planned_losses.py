"""Builder losses planned by a scenario: at each instant the oldest builder is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farm.core.alarms import Alarms
from farm.core.commands import LoseBuilder, Out
from farm.core.pools.spec import PoolSpec
from farm.core.state.working_state import BuilderState


class PlannedLosses:
    """The instants at which pools lose a builder, in order."""

    def __init__(
        self,
        specs: Iterable[PoolSpec],
        builders: Mapping[str, BuilderState],
        alarms: Alarms,
        out: Out,
    ) -> None:
        self._out = out
        self._instants = sorted((at, spec.name) for spec in specs for at in spec.lost_at)
        self._builders = builders
        self._alarms = alarms

    def open(self, at: float) -> None:
        """Drop the losses up to this instant: the farm opens, possibly after a restart."""
        self._instants = [instant for instant in self._instants if instant[0] > at]
        self.lose(at)

    def lose(self, at: float) -> None:
        """Lose the builders that are due, and set an alarm for the next loss."""
        while self._instants and self._instants[0][0] <= at:
            self._lose_one(self._instants.pop(0)[1])
        if self._instants:
            self._alarms.ask(self._instants[0][0])

    def _lose_one(self, pool: str) -> None:
        there = [
            (state.joined_at, state.builder.index, name)
            for name, state in self._builders.items()
            if state.builder.pool == pool and not state.losing
        ]
        if there:
            name = min(there)[-1]
            self._builders[name].losing = True
            self._out.append(LoseBuilder(name))
