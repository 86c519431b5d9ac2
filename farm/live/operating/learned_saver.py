"""Saves what a scheduler learns, for the one that follows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from farm.core.commands import Command
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import trees_of
from farm.forecasts.dispatch.forecast_intervals import ForecastCalibration
from farm.forecasts.dispatch.recent_errors import RecentErrors
from farm.live.store.saved import SchedulerMemory, statistics_of

#: real seconds between savings; more if they are costly
SAVING_INTERVAL = 2.0
#: after a saving there is none for this many times as long as it took
MIN_REST = 20


class LearnedSaver:
    """Saves what is learned from events occasionally, if anything has happened.

    Args:
        scheduler: what its estimator and its trees remember is saved.
        calibrations: of dispatch estimates, by the source of their run times.
        learned: what an earlier scheduler saved: ``calibrations`` go on from there.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        calibrations: Mapping[str, ForecastCalibration],
        learned: SchedulerMemory | None,
    ) -> None:
        self._scheduler = scheduler
        self._calibrations = calibrations
        #: how right estimates were lately
        self.errors = RecentErrors(self._waits)
        if learned is not None:
            self.errors.memory = learned.lately
            for name in calibrations.keys() & learned.calibrations.keys():
                calibrations[name].load(learned.calibrations[name])
        self._is_unsaved = True
        self._next_saving = 0.0

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Take in how right estimates were."""
        self._is_unsaved = True
        self.errors.observe(event, commands)

    def save(self, save: Callable[[SchedulerMemory], object], now: float, *, is_last: bool) -> None:
        """Save what is new, if it is time (real); what is saved last is saved at any time."""
        if not self._is_unsaved or (now < self._next_saving and not is_last):
            return
        self._is_unsaved = False
        began = time.monotonic()
        save(
            SchedulerMemory(
                statistics=statistics_of(self._scheduler.estimator),
                trees=trees_of(self._scheduler),
                calibrations={name: one.dump() for name, one in self._calibrations.items()},
                lately=self.errors.memory,
            )
        )
        self._next_saving = now + max(SAVING_INTERVAL, MIN_REST * (time.monotonic() - began))

    def _waits(self, job: str) -> bool:
        state = self._scheduler.jobs.get(job)
        return state is not None and state.slot is None
