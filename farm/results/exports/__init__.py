"""A finished run in other programs' formats: one file per format, and the registry.

``farm export --format openmetrics`` is not here: it needs the scheduler and lives in farm.metrics.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from farm.results.exports import batsim, parquet, swf, taskcluster
from farm.results.run_directory import JOBS, Run


def _export_csv(run: Run, out: Path) -> int:
    """Copy jobs.csv, which ``farm import csv`` and scenario traces can read."""
    count = len(run.jobs)
    shutil.copyfile(run.path / JOBS, out)
    return count


EXPORTS: dict[str, Callable[[Run, Path], int]] = {
    "csv": _export_csv,
    "parquet": parquet.export,
    "swf": swf.export,
    "batsim": batsim.export,
    "taskcluster": taskcluster.export,
}
"""By format: writes a run to a new file (batsim: directory) and returns the number of jobs."""
