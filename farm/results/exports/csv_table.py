"""``csv``: the run's jobs as a table; ``farm import csv`` and a scenario's trace read it."""

from __future__ import annotations

import shutil
from pathlib import Path

from farm.results.run_directory import JOBS, Run


def export(run: Run, out: Path) -> int:
    """Write jobs.csv to a file of its own; return how many jobs there are."""
    count = len(run.jobs)
    shutil.copyfile(run.path / JOBS, out)
    return count
