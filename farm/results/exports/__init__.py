"""A finished run in other programs' formats: one a file, and the registry.

``farm export --format openmetrics`` is not here: it needs the scheduler and lives in farm.metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farm.results.exports import batsim, csv_table, swf
from farm.results.run_directory import Run

EXPORTS: dict[str, Callable[[Run, Path], int]] = {
    "csv": csv_table.export,
    "swf": swf.export,
    "batsim": batsim.export,
}
"""Format -> what writes a run to a new file (batsim: a new directory); returns how many jobs."""
