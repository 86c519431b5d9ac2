"""Writes a first, commented scenario: an example's, or one for a trace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from farm.core.errors import InputError
from farm.plugins.entry_points import on_records
from farm.records.reading import OnShare, unseen
from farm.whole_files import write_document

#: what ``farm init`` writes without a trace: each key that a farm needs, once
FIRST = """\
# A morning of jobs, and the builders for it: the twelve keys that a farm needs.
# All others have defaults: farm init --schema, docs/reference/scenario.md
name: first
seed: 1                             # of everything random
# like: jenkins                     # decide as taskcluster, jenkins, buildbarn or launchpad
pools:
  - name: linux
    platform: {processor: amd64}    # what a job asks for
    slots: 4                        # jobs at once on a builder
    builders: 8                     # or, instead of this key, sized by an algorithm:
    # provisioner: {algorithm: taskcluster, max: 16}
    # boot_time: 1m
    # idle_timeout: 15m
workload:
  - arrivals:                       # or recorded jobs: farm init jobs.csv
      poisson: {rate: 120/h}
      duration: 3h
      service_time: {lognormal: {mean: 12m, std: 10m}}
      kind: {test: 6, build: 3, lint: 1}
scheduling:
  policy: fifo                      # or sjf, ljf, ljf-aging, …
live: {speed: 600}                  # of farm run: ten minutes in a second
"""


def write_first_scenario(
    out: Path,
    trace: Path | None = None,
    fields: Mapping[str, str] | None = None,
    on_read: OnShare = unseen,
    *,
    strict: bool = False,
) -> list[str]:
    """Write a scenario that runs: a small farm's, or a pool for each platform of a trace.

    Args:
        out: the new file.
        trace: recorded jobs; None: some that are drawn. Records that are no trace are kept beside
            the file, as a bundle.
        fields: of a table: for each part of a job the column that has it.
        on_read: given how much is done, 0 to 1.
        strict: a trace that a check finds doubtful is refused.

    Returns what of the trace is not among its jobs, and why, and what the checks of it have found.
    Raises InputError where the file exists or cannot be written, TraceError for the trace.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    text = FIRST
    remarks: list[str] = []
    if trace is not None:
        path = os.path.relpath(trace, out.parent)
        beside = out.with_suffix(".records")
        text, remarks = on_records("scenario")(
            trace, path, fields, on_read, strict=strict, beside=beside
        )
    write_document(out, text)
    return remarks
