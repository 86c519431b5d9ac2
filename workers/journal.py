"""A builder host's journal of its attempts, for an audit of the farm, and what they have cost.

One file for each process, a line of JSON for each beginning and end, written at once; instants are
of this machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

log = logging.getLogger(__name__)


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start or end of an attempt on a builder, or what it has burnt (before its end)."""

    at: float
    what: Literal["began", "burnt", "ended"]
    job: str
    attempt: int
    builder: str
    outcome: str = ""
    #: burnt: seconds of work, and the processor seconds that these took
    work: float = 0.0
    cpu: float = 0.0


class AttemptJournal:
    """The journal of one host; with an empty folder name nothing is written.

    What a full disk does not take is left out.
    """

    def __init__(self, folder: str, host: str) -> None:
        self._complained = False
        self._file: int | None = None
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            path = Path(folder) / f"{host}-{os.getpid()}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def began(self, job: str, attempt: int, builder: str) -> None:
        """Record the start of an attempt."""
        self._write(Note(time.monotonic(), "began", job, attempt, builder))

    def burnt(self, job: str, attempt: int, builder: str, work: float, cpu: float) -> None:
        """Record the processor time that the work of a burning attempt took."""
        self._write(Note(time.monotonic(), "burnt", job, attempt, builder, work=work, cpu=cpu))

    def ended(self, job: str, attempt: int, builder: str, outcome: str) -> None:
        """Record the end of an attempt."""
        self._write(Note(time.monotonic(), "ended", job, attempt, builder, outcome))

    def _write(self, note: Note) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, msgspec.json.encode(note) + b"\n")
        except OSError as error:
            if not self._complained:
                self._complained = True
                log.warning("the journal (FARM_JOURNAL) has gaps: it cannot be written: %s", error)


def read_journals(folder: Path) -> Iterator[Note]:
    """Yield what all hosts have noted, host by host; a last line that was cut is left out."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield msgspec.json.decode(line, type=Note)
