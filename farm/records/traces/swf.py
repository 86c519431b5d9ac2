"""``swf``: the Standard Workload Format 2.2 of the Parallel Workloads Archive (also .swf.gz).

One job a line, 18 numbers, -1 where a number is unknown; lines that begin with ``;`` are comments,
the first of them the header (``; Key: value``). Unknown values are handled as follows:

========================  ===========================================================
submit or run time        the job cannot be placed: left out
run time 0 and cancelled  it never ran: left out
requested time            nothing declared: the declared time is the service time
executable                kind ``job``
partition                 the scenario's default platform
user, group, queue        no such attribute
processors                those that were requested, else one
status                    succeeded
========================  ===========================================================

A job that was swapped out has several lines. ``Preemption: Double`` means that each such job has a
summary too: the partial lines (status 2, 3, 4) are left out. Without a summary the parts of a job
are added up into one job, submitted when the first part was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from farm.core.errors import TraceError, not_among
from farm.core.model import JOB_FIELDS, Platform
from farm.records.attempt import Result
from farm.records.content import read_bytes
from farm.records.traces.records import Records, attempts_of

FIELDS = (
    "job", "submit_time", "wait_time", "run_time", "processors", "cpu_time", "memory",
    "requested_processors", "requested_time", "requested_memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
"""The 18 fields of a line; times in seconds, memory in KB."""

DEFAULT_MAPPING = {
    "declared_time": "requested_time",
    "kind": "executable",
    "user": "user",
    "group": "group",
    "project": "executable",
    "queue": "queue",
    "partition": "partition",
}
"""Part of the job -> field that it is read from; ``fields`` of a scenario changes it."""

NUMBERS = ("level", "priority", "score", "declared_time", "threads")
"""Parts of a job that are numbers; ``platform``, ``kind``, ``matrix`` and attributes are text."""

JOB, SUBMIT, WAIT, RUN, PROCESSORS, REQUESTED, STATUS = 0, 1, 2, 3, 4, 7, 10
FAILED, PARTIAL, LAST_PARTIAL, LAST_PARTIAL_FAILED, CANCELLED = 0, 2, 3, 4, 5
PARTS = (PARTIAL, LAST_PARTIAL, LAST_PARTIAL_FAILED)
_RESULTS: dict[float, Result] = {
    FAILED: "failed", LAST_PARTIAL_FAILED: "failed", CANCELLED: "cancelled",
}  # fmt: skip

Line = tuple[float, ...]


class SwfLog(NamedTuple):
    """An SWF file: its header (each key's values in order) and its lines of 18 numbers."""

    header: dict[str, list[str]]
    lines: list[Line]


def read(path: Path, fields: Mapping[str, str] | None = None) -> Records:
    """Return the jobs of an SWF file; TraceError names the line (from 1) that is wrong."""
    mapping = _mapping(path, fields or {})
    log = read_log(path)
    left_out: Counter[str] = Counter()
    lines = list(_jobs(log, left_out))
    if not lines:
        raise TraceError(f"{path}: found no job with a known submit and run time")
    numbers = [f"{line[JOB]:.0f}" for line in lines]
    describe = _describer(mapping, path)
    submitted = np.array([line[SUBMIT] for line in lines])
    run = np.array([line[RUN] for line in lines])
    waits = np.array([line[WAIT] for line in lines])
    started = np.where(waits >= 0, submitted + waits, np.nan)
    results = [_RESULTS.get(line[STATUS], "succeeded") for line in lines]
    # when the parts of a job ended that was put together is not known
    whole = ~np.isin([line[STATUS] for line in lines], PARTS)
    finished = np.where(whole, started + run, np.nan)
    return Records(
        submitted,
        run,
        numbers if len(set(numbers)) == len(numbers) else None,
        [describe(line) for line in lines],
        np.array([_processors(line) for line in lines]),
        left_out,
        attempt_at=attempts_of(numbers, submitted, started, finished, results),
    )


def _processors(line: Line) -> int:
    known = line[PROCESSORS] if line[PROCESSORS] >= 1 else line[REQUESTED]
    return max(1, int(known))


def read_log(path: Path) -> SwfLog:
    """Return header and lines as they stand in the file, gzip or plain."""
    header: dict[str, list[str]] = {}
    lines: list[Line] = []
    text = read_bytes(path).decode("utf-8-sig", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped.startswith(";"):
            key, colon, value = stripped.lstrip("; \t").partition(":")
            if colon and not lines:
                header.setdefault(key.strip(), []).append(value.strip())
        elif stripped:
            lines.append(_line(stripped, f"{path}:{number}"))
    return SwfLog(header, lines)


def _line(text: str, where: str) -> Line:
    words = text.split()
    if len(words) != len(FIELDS):
        raise TraceError(f"{where}: found {len(words)} fields; allowed: {len(FIELDS)}")
    try:
        values = tuple(map(float, words))
    except ValueError:
        values = tuple(_float(word) for word in words)
    if not math.isfinite(sum(values)) and not all(map(math.isfinite, values)):
        place = next(place for place, value in enumerate(values) if not math.isfinite(value))
        raise TraceError(
            f"{where}: {FIELDS[place]} (field {place + 1}): found {words[place]!r:.40}; "
            "allowed: a number, -1 if unknown"
        )
    return values


def _float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _jobs(log: SwfLog, left_out: Counter[str]) -> Iterator[Line]:
    """Yield one line a job: those with an arrival that did run, parts combined."""
    preemption = (log.header.get("Preemption") or ["No"])[-1].lower()
    lines = log.lines
    if preemption == "double":
        in_parts = {line[JOB] for line in lines if line[STATUS] in PARTS}
        lines = [it for it in lines if it[STATUS] in PARTS or it[JOB] not in in_parts]
    if any(line[STATUS] in PARTS for line in lines):
        lines = _put_together(lines)
    for line in lines:
        if line[STATUS] == CANCELLED and line[RUN] <= 0:
            left_out["cancelled before running"] += 1
        elif line[SUBMIT] < 0 or line[RUN] < 0:
            left_out["without a submit or run time"] += 1
        else:
            yield line


def _put_together(lines: list[Line]) -> list[Line]:
    """Add up the run times of each job's parts; its last part decides how it ended."""
    whole: dict[float, list[float]] = {}
    made: list[list[float]] = []
    for line in lines:
        known = whole.get(line[JOB]) if line[STATUS] in PARTS else None
        if known is None:
            made.append(list(line))
            if line[STATUS] in PARTS:
                whole[line[JOB]] = made[-1]
        else:
            known[RUN] = max(known[RUN], 0.0) + max(line[RUN], 0.0)
            known[STATUS] = line[STATUS]
    return [tuple(line) for line in made]


def _mapping(path: Path, changes: Mapping[str, str]) -> dict[str, int]:
    """Return part of the job -> position of the field, the scenario's ``fields`` applied."""
    mapping: dict[str, int] = {}
    for part, field in {**DEFAULT_MAPPING, **changes}.items():
        if field == "none":
            continue
        if field not in FIELDS:
            raise TraceError(f"{path}: fields.{part}: {not_among(field, ('none', *FIELDS))}")
        mapping[part] = FIELDS.index(field)
    return mapping


def _describer(mapping: dict[str, int], path: Path) -> Any:
    """Return a function for a job's further fields of a line; equal attributes share one dict."""
    special = {*NUMBERS, "platform", "kind", "matrix"}
    numbers = [(JOB_FIELDS[part], place) for part, place in mapping.items() if part in NUMBERS]
    texts = [(part, place) for part, place in mapping.items() if part in {"kind", "matrix"}]
    attributes = [(part, place) for part, place in mapping.items() if part not in special]
    places = [place for _, place in attributes]
    partition = mapping.get("platform")
    shared: dict[Line, dict[str, str]] = {}
    platforms: dict[float, Platform] = {}

    def attributes_of(line: Line) -> dict[str, str]:
        key = tuple([line[place] for place in places])
        if key not in shared:
            shared[key] = {part: _named(p, line[p]) for part, p in attributes if line[p] >= 0}
        return shared[key]

    def describe(line: Line) -> dict[str, Any]:
        fields: dict[str, Any] = {"attributes": attributes_of(line)}
        for field, place in numbers:
            if line[place] >= (field.name == "threads"):
                fields[field.name] = value = field.kind(line[place])
                if not field.limit.holds(value):
                    where = f"{path}: job {line[JOB]:.0f}: {FIELDS[place]}"
                    raise TraceError(f"{where}: {field.refuse(value)}")
        for part, place in texts:
            if line[place] >= 0:
                fields[part] = _named(place, line[place])
        if partition is not None and (value := line[partition]) >= 0:
            if value not in platforms:
                platforms[value] = Platform(_named(partition, value))
            fields["platform"] = platforms[value]
        if _RESULTS.get(line[STATUS]) == "failed":
            fields["fails"] = True
        return fields

    return describe


def _named(place: int, value: float) -> str:
    return f"{FIELDS[place]}-{value:g}" if value < 1e6 else f"{FIELDS[place]}-{value:.0f}"
