"""The option ``--log``: prints each event and command of a run as it happens."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from farm.core.commands import Command
from farm.core.events import Event
from farm.results.log.writer import EventLogLines


class EventLines:
    """Observer that prints the event log in readable form: farm time, event, ``key=value``."""

    def __init__(self) -> None:
        self._lines = EventLogLines()
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode_lines

    def __call__(self, event: Event, commands: Sequence[Command]) -> None:
        """Print one event and its commands."""
        self._lines(event, commands)
        for line in self._decode(self._lines.take()):
            sys.stderr.write(f"{_readable(**line)}\n")


def _readable(at_s: float, event: str, **values: object) -> str:
    pairs = [f"{key}={_short(value)}" for key, value in values.items()]
    return " ".join([f"{at_s:12.3f}", f"{event:18}", *pairs])


def _short(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
