"""Reports what was left out of a table whose columns ``--column`` names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from farm.terminal.output import note
from farm.workload.traces.foreign_table import read_foreign


def say_left_out(table: Path, fields: Mapping[str, str]) -> None:
    """Print on standard error how many rows were left out and why, and the unused columns."""
    reading = read_foreign(table, fields)
    for why, count in reading.left_out.items():
        note(f"left out: {count:,} rows {why}", err=True)
    if reading.unused:
        note(f"columns not used: {', '.join(reading.unused)}", err=True)
