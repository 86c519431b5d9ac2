"""From attempts to a file of a source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from farm.records.attempt import Attempt
from farm.records.sources import SOURCES
from farm.records.writing import dated


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
