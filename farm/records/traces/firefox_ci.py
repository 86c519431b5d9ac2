"""``firefox-ci``: tasks of one Mozilla worker pool, as the Taskcluster simulator records them.

Records of 8 bytes, no header: big-endian uint32 creation time (ms since the capture began) and
big-endian uint32 duration (ms), by ascending creation time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from farm.core.errors import TraceError
from farm.records.reading import read_bytes
from farm.records.traces.trace_records import Records

RECORD = 8


def read(path: Path) -> Records:
    """Return the jobs of a .dat file; TraceError names the record (from 1) that is wrong."""
    content = read_bytes(path)
    whole, rest = divmod(len(content), RECORD)
    if rest:
        raise TraceError(
            f"{path}: record {whole + 1}: found {rest} of its {RECORD} bytes; the file is truncated"
        )
    if not whole:
        raise TraceError(f"{path}: found no records; allowed: at least one of {RECORD} bytes")
    pairs = np.frombuffer(content, dtype=">u4").reshape(-1, 2).astype(np.float64)
    created, durations = pairs[:, 0], pairs[:, 1]
    backwards = np.flatnonzero(np.diff(created) < 0)
    if backwards.size:
        place = int(backwards[0]) + 1
        raise TraceError(
            f"{path}: record {place + 1}: created at {created[place]:.0f}ms, before the record "
            f"above it ({created[place - 1]:.0f}ms); allowed: ascending times, so this is garbled"
        )
    return Records(created / 1000.0, durations / 1000.0)
