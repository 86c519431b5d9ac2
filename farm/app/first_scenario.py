"""Writes a first, commented scenario: an example's, or one for a trace."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from unicodedata import normalize

from farm.core.errors import InputError, TraceError, file_access
from farm.core.model import Job, Platform
from farm.results.formatting import readable_span
from farm.scenario import TraceOptions
from farm.scenario.examples import find_scenario
from farm.terminal.console import many
from farm.workload.traces import read_records, trace_jobs

BUSY = 0.7
"""The share of its time that a pool of the size proposed is busy on average."""


def write_first_scenario(
    out: Path, trace: Path | None = None, fields: Mapping[str, str] | None = None
) -> list[str]:
    """Write a scenario that runs: the quickstart's, or a pool for each platform of a trace.

    Returns what of the trace is not among its jobs, and why. Raises InputError where the file
    exists or cannot be written, TraceError for the trace.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    remarks: list[str] = []
    if trace is None:
        text = find_scenario("quickstart").read_text(encoding="utf-8")
    else:
        options = TraceOptions(fields=None if fields is None else dict(fields))
        records = read_records(trace, None, options)
        jobs, remarks = list(trace_jobs(records, options, records.name)), records.remarks
        _refuse_some_without_platform(jobs, trace)
        text = _fitting(jobs, os.path.relpath(trace, out.parent), fields)
    with file_access(out):
        out.write_text(text, encoding="utf-8")
    return remarks


def _refuse_some_without_platform(jobs: Sequence[Job], trace: Path) -> None:
    """Where pools differ, no scenario can say which of them such jobs are for."""
    without = sum(job.platform == Platform() for job in jobs)
    if 0 < without < len(jobs):
        raise TraceError(
            f"{trace}: {without:,} of {many(len(jobs), 'job')} without a platform; allowed: all "
            "of them or none (any/virtual: whichever pool is free)"
        )


def _fitting(jobs: Sequence[Job], path: str, fields: Mapping[str, str] | None) -> str:
    arrivals = [job.arrived_at or 0.0 for job in jobs]
    span = max(max(arrivals) - min(arrivals), 1.0)
    work: dict[Platform, list[float]] = {}
    for job in jobs:
        work.setdefault(job.platform, []).append(job.service_time)
    pools = [
        _pool(name, platform, times, span)
        for name, (platform, times) in zip(_names(list(work)), work.items(), strict=True)
    ]
    columns = "" if not fields else f"\n      fields: {json.dumps(dict(fields))}"
    return f"""# {len(jobs):,} jobs of {path}, which arrive within {readable_span(span)}.
# What every key means, and which others there are: farm schema, docs/reference/scenario.md
version: 1
name: first
seed: 1
pools:
{"".join(pools)}workload:
  - trace:
      path: {json.dumps(path)}{columns}
      # time_scale: 0.5     # arrivals twice as dense
scheduling:
  policy: fifo            # or sjf, ljf, ljf-aging, …
"""


def _pool(name: str, platform: Platform, times: Sequence[float], span: float) -> str:
    processor = json.dumps(platform.processor or "amd64")
    virtualized = "true" if platform.virtualized is not False else "false"
    seconds = sum(times)
    builders = min(len(times), max(1, math.ceil(seconds / span / BUSY)))
    return f"""  - name: {name}
    platform: {{processor: {processor}, virtualized: {virtualized}}}
    slots: 1
    builders: {builders}       # {readable_span(seconds)} of work: busy {BUSY:.0%} of the time
    # or sized by an algorithm, instead of builders:
    # provisioner: {{algorithm: taskcluster, min: 0, max: {2 * builders}, scaling_ratio: 1.0}}
    # boot_time: 1m
    # idle_timeout: 15m
    price: 1.0            # of a builder-hour
"""


def _names(platforms: Sequence[Platform]) -> list[str]:
    """Return a name for the pool of each platform, as scenarios allow them."""
    names: list[str] = []
    for platform in platforms:
        plain = normalize("NFKD", platform.processor or "any").encode("ascii", "ignore").decode()
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-.") or "pool"
        name += "-native" if platform.virtualized is False else ""
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names
