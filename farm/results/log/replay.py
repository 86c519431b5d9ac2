"""Replays a recorded run through a fresh scheduler: the same facts must give the same orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from farm.core.commands import IGNORED, Command
from farm.core.events import Event
from farm.results.log.reader import Entry, read_log


class Handler(Protocol):
    """A scheduler, as far as a replay needs one."""

    def handle(self, event: Event) -> Sequence[Command]:
        """Take one fact in and return the orders that follow from it."""


class Difference(msgspec.Struct, frozen=True):
    """The first fact to which a scheduler answered otherwise than the log says."""

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
    """Hand a log's facts to a scheduler; return the first difference, None if there is none.

    ``scheduler`` must be fresh and configured like the one that made the log. The last entry of
    a log that was cut short may have lost orders; there only those that are left are compared.
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
                replayed_ignored=answer is IGNORED,
            )
    return None


def _agrees(entry: Entry, answer: Sequence[Command]) -> bool:
    recorded, replayed = list(entry.commands), list(answer)
    if entry.cut:
        return replayed[: len(recorded)] == recorded
    return replayed == recorded and entry.ignored == (answer is IGNORED)
