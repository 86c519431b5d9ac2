"""Replays a recorded run through a fresh scheduler: the same events must give the same commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from farm.core.commands import Command, Ignored
from farm.core.driver import Handler
from farm.core.events import Event
from farm.results.log.reader import Entry, read_log


class Difference(msgspec.Struct, frozen=True):
    """The first event to which a scheduler answered otherwise than the log says."""

    line: int
    event: Event
    recorded: tuple[Command, ...]
    replayed: tuple[Command, ...]
    recorded_ignored: bool
    replayed_ignored: bool

    def __str__(self) -> str:
        def told(commands: tuple[Command, ...], ignored: bool) -> str:
            return "ignored" if ignored else "\n    ".join(map(str, commands)) or "nothing"

        return (
            f"line {self.line}: {self.event}\n"
            f"  recorded:\n    {told(self.recorded, self.recorded_ignored)}\n"
            f"  replayed:\n    {told(self.replayed, self.replayed_ignored)}"
        )


def replay(log: Path | str | Iterable[Entry], scheduler: Handler) -> Difference | None:
    """Hand a log's events to a scheduler; return the first difference, None if there is none.

    ``scheduler`` must be fresh and configured like the one that made the log. The last entry of
    a log that was cut short may have lost commands; there only those that are left are compared.
    Raises InputError for a log that cannot be read.
    """
    entries = read_log(log) if isinstance(log, str | Path) else log
    for entry in entries:
        answer = scheduler.handle(entry.event)
        if not _agrees(entry, answer):
            return Difference(
                line=entry.line,
                event=entry.event,
                recorded=tuple(entry.commands),
                replayed=tuple(answer),
                recorded_ignored=entry.ignored,
                replayed_ignored=type(answer) is Ignored,
            )
    return None


def _agrees(entry: Entry, answer: Sequence[Command]) -> bool:
    recorded, replayed = list(entry.commands), list(answer)
    if entry.cut:
        return replayed[: len(recorded)] == recorded
    return replayed == recorded and entry.ignored == (type(answer) is Ignored)
