"""Builders that a scenario loses at stated instants: the one that has been there longest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farm.core.alarms import Alarms
from farm.core.commands import Command, LoseBuilder
from farm.core.pools.spec import PoolSpec
from farm.core.state import BuilderState


class PlannedLosses:
    """The instants at which pools lose a builder, in order."""

    def __init__(
        self, specs: Iterable[PoolSpec], builders: Mapping[str, BuilderState], alarms: Alarms
    ) -> None:
        self._instants = sorted((at, spec.name) for spec in specs for at in spec.lost_at)
        self._builders = builders
        self._alarms = alarms

    def open(self, at: float) -> None:
        """The farm opens, again perhaps: what lies up to this instant has happened."""
        self._instants = [instant for instant in self._instants if instant[0] > at]

    def lose(self, at: float, commands: list[Command]) -> None:
        """Lose the builders whose instant has come, and have an alarm set for the next one."""
        while self._instants and self._instants[0][0] <= at:
            self._lose_one(self._instants.pop(0)[1], commands)
        if self._instants:
            self._alarms.ask(self._instants[0][0], commands)

    def _lose_one(self, pool: str, commands: list[Command]) -> None:
        there = [
            (state.joined_at, state.builder.index, name)
            for name, state in self._builders.items()
            if state.builder.pool == pool and not state.losing
        ]
        if there:
            name = min(there)[-1]
            self._builders[name].losing = True
            commands.append(LoseBuilder(name))
