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
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from struct import pack
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from farm.columns import Array, Coded, Floats, combined, distinct
from farm.core.errors import TraceError, not_among
from farm.core.model import JOB_FIELDS, Platform
from farm.records.attempt import Happened, Result
from farm.records.reading import read_bytes
from farm.records.traces.trace_records import Records

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
FAILS = (FAILED, LAST_PARTIAL_FAILED)
_RESULTS: dict[float, Result] = {**dict.fromkeys(FAILS, "failed"), CANCELLED: "cancelled"}

#: characters of a file that are read together
PIECE = 1 << 18
_NUMBERS = msgspec.json.Decoder(list[float])


class SwfLog(NamedTuple):
    """An SWF file: its header (each key's values in order) and its lines of 18 numbers."""

    header: dict[str, list[str]]
    lines: Floats


def read(path: Path, fields: Mapping[str, str] | None = None) -> Records:
    """Return the jobs of an SWF file; TraceError names the line (from 1) that is wrong."""
    mapping = _mapping(path, fields or {})
    lines, left_out = _jobs(read_log(path))
    if not len(lines):
        raise TraceError(f"{path}: found no job with a known submit and run time")
    submitted, run, waits, status = (lines[:, place] for place in (SUBMIT, RUN, WAIT, STATUS))
    started = np.where(waits >= 0, submitted + waits, np.nan)
    # when the parts of a job ended that was put together is not known
    finished = np.where(_is_among(status, PARTS), np.nan, started + run)
    width = np.where(lines[:, PROCESSORS] >= 1, lines[:, PROCESSORS], lines[:, REQUESTED])
    known = _repeating(status)
    results = known.with_values([_RESULTS.get(one, "succeeded") for one in known.values])
    return Records(
        submitted.copy(),
        run.copy(),
        _ids(lines[:, JOB]),
        _details(lines, mapping, path),
        np.clip(width, 1, 2.0**53).astype(np.int64),
        left_out,
        happened=Happened.between(submitted, started, finished, None, results),
    )


def _ids(jobs: Floats) -> list[str] | None:
    """Return the numbers as text, rounded; None: they are not distinct."""
    if not np.signbit(jobs).any() and ((jobs < 2**53) & (jobs == np.floor(jobs))).all():
        are_distinct = len(distinct(jobs)[0]) == len(jobs)
        return list(map(str, jobs.astype(np.int64).tolist())) if are_distinct else None
    found = [f"{job:.0f}" for job in jobs.tolist()]
    return found if len(set(found)) == len(found) else None


def _is_among(column: Floats, values: Sequence[float]) -> Array:
    found: Array = np.logical_or.reduce([column == value for value in values])
    return found


def read_log(path: Path) -> SwfLog:
    """Return header and lines as they stand in the file, gzip or plain."""
    content = read_bytes(path).removeprefix(BOM_UTF8)
    header: dict[str, list[str]] = {}
    begin, number = 0, 1
    while begin < len(content):
        end = content.find(b"\n", begin) + 1 or len(content)
        stripped = content[begin:end].decode(errors="replace").strip()
        if stripped and not stripped.startswith(";"):
            break
        key, colon, value = stripped.lstrip("; \t").partition(":")
        if colon:
            header.setdefault(key.strip(), []).append(value.strip())
        begin, number = end, number + 1
    # column by column, as they are used; a line has twice as many bytes as numbers, or more
    lines = np.empty((len(content) // (2 * len(FIELDS)) + 1, len(FIELDS)), order="F")
    known = 0
    while begin < len(content):
        end = content.find(b"\n", begin + PIECE) + 1 or len(content)
        piece = content[begin:end]
        found = by_column(piece)
        found = _by_line(piece, number, path) if found is None else found
        lines[known : known + len(found)] = found
        known += len(found)
        begin, number = end, number + piece.count(b"\n")
    return SwfLog(header, lines[:known])


def by_column(piece: bytes) -> Floats | None:
    """Return the numbers of lines that have nothing but them, as ``_by_line`` does; else None.

    They are read as one list in JSON, whose numbers are those that Python reads, if not all.
    """
    piece = piece.strip(b" \t\r\n")
    text = np.frombuffer(piece, np.uint8).copy()
    blank = text <= ord(" ")
    if np.count_nonzero(text < ord(" ")) != sum(map(piece.count, (b"\t", b"\r", b"\n"))):
        return None
    gaps = np.flatnonzero(blank[:-1] & ~blank[1:])
    before = np.searchsorted(gaps, np.flatnonzero(text == ord("\n")))
    words = np.diff(before, prepend=-1, append=len(gaps))
    if not ((words == len(FIELDS)) | (words == 0)).all():
        return None
    text[gaps] = ord(",")
    try:
        numbers = _NUMBERS.decode(b"[" + text.tobytes() + b"]")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if len(numbers) != len(gaps) + 1:
        return None
    packed = pack(f"{len(numbers)}d", *numbers)  # in less time than NumPy's own ways
    return np.frombuffer(packed).reshape(-1, len(FIELDS))


def _by_line(piece: bytes, first: int, path: Path) -> Floats:
    lines = piece.decode(errors="replace").split("\n")
    numbered = ((number, line.strip()) for number, line in enumerate(lines, first))
    found = [
        _line(line, f"{path}:{number}")
        for number, line in numbered
        if line and not line.startswith(";")
    ]
    return np.array(found, np.float64).reshape(-1, len(FIELDS))


def _line(text: str, where: str) -> tuple[float, ...]:
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


def _jobs(log: SwfLog) -> tuple[Floats, dict[str, int]]:
    """Return one line a job: those with an arrival that did run, parts combined.

    And how many others there are, by reason.
    """
    preemption = (log.header.get("Preemption") or ["No"])[-1].lower()
    lines = log.lines
    part = _is_among(lines[:, STATUS], PARTS)
    if preemption == "double":
        lines = lines[part | ~np.isin(lines[:, JOB], lines[part, JOB])]
        part = _is_among(lines[:, STATUS], PARTS)
    if part.any():
        lines = _put_together(lines)
    cancelled = (lines[:, STATUS] == CANCELLED) & (lines[:, RUN] <= 0)
    unknown = ~cancelled & ((lines[:, SUBMIT] < 0) | (lines[:, RUN] < 0))
    left_out = {
        "cancelled before running": int(np.count_nonzero(cancelled)),
        "without a submit or run time": int(np.count_nonzero(unknown)),
    }
    return lines[~(cancelled | unknown)] if any(left_out.values()) else lines, left_out


def _put_together(lines: Floats) -> Floats:
    """Add up the run times of each job's parts; its last part decides how it ended."""
    whole: dict[float, list[float]] = {}
    made: list[list[float]] = []
    for line in lines.tolist():
        known = whole.get(line[JOB]) if line[STATUS] in PARTS else None
        if known is None:
            made.append(line)
            if line[STATUS] in PARTS:
                whole[line[JOB]] = line
        else:
            known[RUN] = max(known[RUN], 0.0) + max(line[RUN], 0.0)
            known[STATUS] = line[STATUS]
    return np.array(made)


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


def _details(lines: Floats, mapping: dict[str, int], path: Path) -> dict[str, Coded]:
    """Return the further fields of the jobs; jobs with the same attributes share one dict."""
    columns = {part: _repeating(lines[:, place]) for part, place in mapping.items()}
    found: dict[str, Coded] = {}
    refused: list[tuple[int, str]] = []
    for part in NUMBERS:
        if part in columns:
            field, place = JOB_FIELDS[part], mapping[part]
            least = 1 if part == "threads" else 0
            values = [field.kind(v) if v >= least else UNSET for v in columns[part].values]
            found[part] = columns[part].with_values(values)
            for code, value in enumerate(values):
                if value is not UNSET and not field.limit.holds(value):
                    row = int(np.argmax(columns[part].codes == code))
                    where = f"{path}: job {lines[row, JOB]:.0f}: {FIELDS[place]}"
                    refused.append((row, f"{where}: {field.refuse(value)}"))
    if refused:
        raise TraceError(min(refused, key=itemgetter(0))[1])
    for part, made in (("kind", str), ("matrix", str), ("platform", Platform)):
        if part in columns:
            place, column = mapping[part], columns[part]
            values = [made(name) if (name := _named(place, v)) else UNSET for v in column.values]
            found[part] = column.with_values(values)
    known = [part for part in mapping if part not in found]
    firsts, codes = combined([columns[part] for part in known], len(lines))
    named = {}
    for part in known:  # each name is made once
        names = [_named(mapping[part], value) for value in columns[part].values]
        named[part] = Coded(columns[part].codes[firsts], names).tolist()
    attributes = [
        {part: name for part, names in named.items() if (name := names[row])}
        for row in range(len(firsts))
    ]
    found["attributes"] = Coded(codes, attributes)
    found["fails"] = Coded(_is_among(lines[:, STATUS], FAILS).astype(np.int8), [UNSET, True])
    return {field: one for field, one in found.items() if {*map(id, one.values)} != {id(UNSET)}}


def _repeating(column: Floats) -> Coded:
    values, _, codes = distinct(column)
    return Coded(codes, values.tolist())


def _named(place: int, value: float) -> str:
    """Return the name of a number; empty: it is not known."""
    if value < 0:
        return ""
    return f"{FIELDS[place]}-{value:g}" if value < 1e6 else f"{FIELDS[place]}-{value:.0f}"
