"""Idle time-outs of simulated builders."""

from __future__ import annotations

from collections.abc import Callable

from farm.core.events import BuilderIdle, BuilderJoined, Event, JobFinished, SlotCleaned
from farm.emulation.agenda import LIFE
from farm.emulation.builder import EmulatedBuilder
from farm.sim.agenda import Agenda


class IdleWatch:
    """Hears what one builder reports, and passes it on; says BuilderIdle when its time is over."""

    builder: EmulatedBuilder

    def __init__(self, timeout: float, agenda: Agenda, report: Callable[[Event], None]) -> None:
        self._timeout = timeout
        self._agenda = agenda
        self._report = report
        self._idle_since = 0.0
        self._armed = False

    def hear(self, event: Event) -> None:
        """Pass an event on; the builder may be idle after it."""
        self._report(event)
        if type(event) in (BuilderJoined, JobFinished, SlotCleaned):
            self.watch(event.at)

    def watch(self, since: float) -> None:
        """Arm one timer; when it fires early because of work in between, it is set again."""
        if not (self.builder.attempts or self.builder.cleaning or self.builder.gone):
            self._idle_since = since
            if not self._armed:
                self._arm()

    def _arm(self) -> None:
        self._armed = True
        at = self._idle_since + self._timeout
        self._agenda.put(at, LIFE, self.builder.place, self._expired)

    def _expired(self, at: float) -> None:
        self._armed = False
        if self.builder.gone or self.builder.attempts or self.builder.cleaning:
            return  # a later idleness arms it again
        if self._idle_since + self._timeout <= at:
            self._report(BuilderIdle(at, self.builder.id))
        else:
            self._arm()
