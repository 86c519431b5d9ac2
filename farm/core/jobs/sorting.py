"""Queues sorted at intervals, as Jenkins does, by the latest estimates."""

from __future__ import annotations

from farm.core import events
from farm.core.alarms import Alarms, Handler, followed_by
from farm.core.commands import Command
from farm.core.jobs.book import JobBook
from farm.core.jobs.reordering import Reorderer

WATCHED = (
    events.JobsSubmitted, events.JobFinished, events.AttemptLost, events.BuilderLost,
    events.AlarmRang,
)  # fmt: skip
"""Events after which more jobs may wait, or a sorting may be due."""


class QueueSorter:
    """Computes all waiting jobs' sort keys again at every multiple of ``every`` seconds.

    Between sortings a job keeps its key. While no job waits no alarm is set.
    """

    def __init__(self, every: float, book: JobBook, reorderer: Reorderer, alarms: Alarms) -> None:
        self._every = every
        self._book = book
        self._reorderer = reorderer
        self._alarms = alarms
        self._due_at: float | None = None

    def follow(self, handlers: dict[type, Handler]) -> None:
        """Check after each event that may require a sorting."""
        for kind in WATCHED:
            handlers[kind] = followed_by(handlers[kind], self.look)

    def look(self, at: float) -> list[Command]:
        """Sort if it is due; set an alarm for the next sorting if jobs wait."""
        commands: list[Command] = []
        if self._due_at is not None and self._due_at <= at:
            self._due_at = None
            if self._reorderer.unsorted is None:  # else the last sorting takes longer than that
                self._reorderer.sort(at, commands)
        if any(lane.waiting for lane in self._book.dispatcher.matching.lanes):
            if self._due_at is None:
                due_at = (at // self._every + 1) * self._every
                self._due_at = due_at if due_at > at else due_at + self._every
            self._alarms.ask(self._due_at, commands)
        return commands
