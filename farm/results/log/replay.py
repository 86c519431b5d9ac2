"""Replays a recorded run through a new scheduler: the same events must give the same commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from farm.core.commands import Command, Ignored, SetAlarm
from farm.core.driver import Handler
from farm.core.events import Event, FarmOpened
from farm.results.log.reader import Entry


class LogDifference(msgspec.Struct, frozen=True):
    """The first event for which a scheduler's commands differ from the log."""

    line: int
    event: Event
    recorded: tuple[Command, ...]
    replayed: tuple[Command, ...]
    recorded_ignored: bool
    replayed_ignored: bool

    def __str__(self) -> str:
        def shown(commands: tuple[Command, ...], ignored: bool) -> str:
            return "ignored" if ignored else "\n    ".join(map(str, commands)) or "nothing"

        return (
            f"line {self.line}: {self.event}\n"
            f"  recorded:\n    {shown(self.recorded, self.recorded_ignored)}\n"
            f"  replayed:\n    {shown(self.replayed, self.replayed_ignored)}"
        )


def replay(entries: Iterable[Entry], scheduler: Handler) -> LogDifference | None:
    """Pass events to a scheduler; return the first difference, None if there is none.

    ``scheduler`` must be new and configured like the one that made the log. The last entry of a
    truncated log may lack commands; only the remaining ones are compared there. After a takeover
    alarms are not compared: a successor sets its own, as it does not know which were set.
    """
    comparison = LogComparison()
    for entry in entries:
        if (difference := comparison.of(entry, scheduler.handle(entry.event))) is not None:
            return difference
    return None


class LogComparison:
    """Compares a new scheduler's commands with a log's, entry by entry from the first on."""

    def __init__(self) -> None:
        self._openings = 0

    def of(self, entry: Entry, answer: Sequence[Command]) -> LogDifference | None:
        """Return how the commands differ from the entry's, as ``replay``; None: they do not."""
        self._openings += isinstance(entry.event, FarmOpened)
        alarms, ignored = self._openings <= 1, type(answer) is Ignored
        recorded, replayed = (
            [command for command in commands if alarms or type(command) is not SetAlarm]
            for commands in (entry.commands, answer)
        )
        if entry.cut:
            same = replayed[: len(recorded)] == recorded
        else:
            same = replayed == recorded and ignored == entry.ignored
        if same:
            return None
        commands = tuple(entry.commands), tuple(answer)
        return LogDifference(entry.line, entry.event, *commands, entry.ignored, ignored)
