"""``parquet``: the table of jobs with its columns and units; absent values are null."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from farm.core.errors import InputError
from farm.results.run_directory import Run


def export(run: Run, out: Path) -> int:
    """Write the table of jobs; return their number. Raises InputError if pyarrow is missing."""
    try:
        arrow, parquet = (import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise InputError(
            "--format parquet: needs pyarrow; allowed: pip install 'build-farm-emulator[parquet]'"
        ) from None

    def column(values: Any) -> Any:
        absent = values == "" if values.dtype.kind == "U" else values != values
        return arrow.array(values, mask=absent)

    table = arrow.table({name: column(values) for name, values in run.jobs.to_dict().items()})
    parquet.write_table(table, out)
    return len(run.jobs)
