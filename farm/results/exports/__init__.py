"""A finished run in other programs' formats, and the registry of these.

``farm admin export --format openmetrics`` is not here: it needs the scheduler (farm.metrics).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

from farm.columns import Array, Flags
from farm.core.errors import InputError
from farm.results.exports import batsim_export as batsim
from farm.results.exports import swf_export as swf
from farm.results.exports import taskcluster_export as taskcluster
from farm.results.run_directory import Run
from farm.results.table.jobs_csv import write_jobs
from farm.results.table.pipelines import pipelines_of


def _export_csv(run: Run, out: Path) -> int:
    """Write jobs.csv, which ``farm import csv`` and scenario traces can read."""
    count = len(run.jobs)
    run.write_jobs(out)
    return count


def _export_parquet(run: Run, out: Path) -> int:
    """Write the table of jobs with its columns and units; absent values are null."""
    try:
        arrow, parquet = (import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError:
        raise InputError(
            "--format parquet: needs pyarrow; allowed: pip install 'build-farm-emulator[parquet]'"
        ) from None

    def absent(values: Array) -> Flags:
        return np.equal(values, "") if values.dtype.kind == "U" else np.not_equal(values, values)

    columns = run.jobs.to_dict().items()
    table = {name: arrow.array(values, mask=absent(values)) for name, values in columns}
    parquet.write_table(arrow.table(table), out)
    return len(run.jobs)


def _export_pipelines(run: Run, out: Path) -> int:
    """Write the table of pipelines; raises InputError if there are none."""
    pipelines = pipelines_of(run.jobs)
    if not len(pipelines):
        raise InputError(
            f"{run.path}: --format pipelines: no job of this run needs another; allowed: a run "
            "with such jobs"
        )
    return write_jobs(out, [pipelines])


EXPORTS: dict[str, Callable[[Run, Path], int]] = {
    "csv": _export_csv,
    "parquet": _export_parquet,
    "pipelines": _export_pipelines,
    "swf": swf.export,
    "batsim": batsim.export,
    "taskcluster": taskcluster.export,
}
"""By format: writes a run to a new file (batsim: directory) and returns the number of jobs.

``pipelines``: of pipelines."""
