"""The systems whose records can be read; one module for each.

To add one: a module with a ``SOURCE`` (see ``farm.records.source``), and its line among the entry
points of the group ``farm.sources`` in pyproject.toml: in this project's or in one of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec

from farm.plugins.entry_points import SOURCES as GROUP
from farm.plugins.entry_points import entries, loaded
from farm.records.attempt import Attempt
from farm.records.reading import Reading
from farm.records.source import Source
from farm_twin.sources import swf, tables
from farm_twin.sources.writing import dated


class Sources(Mapping[str, Source]):
    """The systems by name, the farm's own first; each is loaded when it is used."""

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        named: dict[str, EntryPoint] = {}
        for entry in entries(GROUP):
            named.setdefault(entry.name, entry)
        return named

    def __getitem__(self, name: str) -> Source:
        """Return a source; KeyError: there is none of this name; InputError: it is broken."""
        source: Source = loaded(self._entries[name])
        return source

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._entries)


SOURCES = Sources()
TABLES: dict[str, Callable[[Reading, Mapping[str, str]], Iterable[Attempt]]] = {
    "csv": tables.read_csv,
    "jsonl": tables.read_jsonl,
}
"""Any other system's, in columns that the user names."""
LOGS: dict[str, Callable[[Reading], Iterable[Attempt]]] = {"swf": swf.read}
"""Logs that are traces, too: they are only read."""


def export_attempts(source: str, attempts: Sequence[Attempt], path: Path) -> int:
    """Write attempts as a source's JSON, a value a line; return how many there were.

    What the source cannot say is lost: Bazel's log and Kueue's have no runners, those of others
    whole seconds.
    """
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for value in SOURCES[source].write(dated(attempts)):
            file.write(encode(value) + b"\n")
    return len(attempts)
