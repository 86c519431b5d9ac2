"""``slurm``: what ``sacct`` prints, as text with ``|`` between the fields, or ``--json``.

A job waits from ``Eligible`` (after its dependencies, begin time and holds). The text's times are
local, without a zone, which the user has to give. Slurm's own ``Planned`` is not used: it counts
until now for pending jobs, and until the end for those that were cancelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

import msgspec

from farm.records.attempt import Attempt, Result, by_word
from farm.records.reading import FIRST, Reading, members

NEEDED = ("JobIDRaw", "Submit", "Eligible", "Start", "End", "State")
_NONE = {"", "Unknown", "None", "N/A"}
_RESULTS: dict[str, Result] = by_word(
    {
        "succeeded": "COMPLETED",
        "cancelled": "CANCELLED REVOKED",
        "lost": "NODE_FAIL PREEMPTED BOOT_FAIL REQUEUED",
    }
)
_GRES, _CPUS = re.compile(r"gres/([^=,]+)="), re.compile(r"\bcpu=(\d+)")
ENDLESS = 2.0**32 - 2
"""From here on a number of seconds is how Slurm writes that there is none."""
_OPEN = {"PENDING", "RUNNING", "SUSPENDED", "REQUEUE_HOLD", "CONFIGURING", "COMPLETING"}


class _Number(msgspec.Struct):
    """A number as ``--json`` writes one that may be none, or endless."""

    set: bool = True
    infinite: bool = False
    number: float = 0


class _Times(msgspec.Struct):
    submission: float | _Number = 0
    eligible: float | _Number = 0
    start: float | _Number = 0
    end: float | _Number = 0


class _State(msgspec.Struct):
    #: older versions have one word
    current: list[str] | str = []


class _Required(msgspec.Struct, rename={"cpus": "CPUs"}):
    cpus: int = 1


class _Resource(msgspec.Struct):
    type: str = ""
    name: str = ""


class _Resources(msgspec.Struct):
    requested: list[_Resource] = []


class _Job(msgspec.Struct):
    """A job of ``sacct --json``."""

    job_id: int
    time: _Times
    state: _State
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    nodes: str = ""
    constraints: str = ""
    required: _Required = msgspec.field(default_factory=_Required)
    tres: _Resources = msgspec.field(default_factory=_Resources)


class _Row(msgspec.Struct):
    """A job of either form; instants are seconds since 1970."""

    id: str
    submitted_at: float | None
    eligible_at: float | None
    started_at: float | None
    finished_at: float | None
    state: str
    name: str
    user: str
    account: str
    platform: str
    slots: int
    nodes: str


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what ``sacct --json`` writes."""
    some = members(value, "jobs")[:1]
    is_job = bool(some) and isinstance(some[0], dict) and "job_id" in some[0]
    return is_job or {"jobs", "meta", "errors"} <= value.keys()


def knows_line(line: str) -> bool:
    """Return whether this is the header of sacct's text, also of one that cannot be read."""
    return set(NEEDED) <= set(line.strip().split("|")) or line.split()[:2] == ["JobID", "JobName"]


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the attempts: rows of one id are tries at one job."""
    for text in reading.texts():
        first = text.readline(FIRST)
        if first.lstrip().startswith(("{", "[")):
            rows = _json_rows(reading.objects_of(text, first), reading)
        else:
            rows = _text_rows(text, first, reading)
        yield from reading.attempts(rows, _attempt)


def _json_rows(values: Iterator[dict[str, object]], reading: Reading) -> Iterator[_Row]:
    for value in values:
        for one in members(value, "jobs"):
            job = reading.record(one, _Job)
            at = job.time
            asked = sorted({one.name for one in job.tres.requested if one.type == "gres"})
            platform = [job.partition, *job.constraints.split("&"), *asked]
            state = job.state.current
            yield _Row(
                id=str(job.job_id),
                submitted_at=_known(at.submission),
                eligible_at=_known(at.eligible),
                started_at=_known(at.start),
                finished_at=_known(at.end),
                state=state if isinstance(state, str) else " ".join(state[:1]),
                name=job.name,
                user=job.user,
                account=job.account,
                platform=",".join(filter(None, platform)),
                slots=max(1, job.required.cpus),
                nodes=job.nodes,
            )


def _known(at: float | _Number) -> float | None:
    """Return an instant; None: it is none, or endless."""
    if isinstance(at, _Number):
        at = at.number if at.set and not at.infinite else 0.0
    return at if 0 < at < ENDLESS else None


def _text_rows(text: TextIO, first: str, reading: Reading) -> Iterator[_Row]:
    header = first.strip().split("|")
    if missing := [name for name in NEEDED if name not in header]:
        reading.refuse(
            f"found no {', '.join(missing)}; allowed: sacct -a -X -P -D --format="
            "JobIDRaw,JobName,User,Account,Partition,Submit,Eligible,Start,End,State,AllocCPUS,"
            "NodeList,Constraints"
        )
    for line in text:
        cells = line.rstrip("\r\n").split("|")
        if not line.strip() or cells == header:  # what several calls print, in one file
            continue
        row = reading.record(dict(zip(header, cells, strict=False)), dict[str, str])
        if len(cells) != len(header):
            reading.refuse(f"found {len(cells)} fields; allowed: {len(header)}, as in the header")

        def instant(name: str, row: dict[str, str] = row) -> float | None:
            return None if row[name] in _NONE else reading.moment(row[name], name)

        asked = sorted(set(_GRES.findall(row.get("ReqTRES", ""))))
        platform = [row.get("Partition", ""), *row.get("Constraints", "").split("&"), *asked]
        slots = row.get("AllocCPUS", "1")
        if slots == "0" and (wanted := _CPUS.search(row.get("ReqTRES", ""))):
            slots = wanted[1]  # it never started
        yield _Row(
            id=row["JobIDRaw"],
            submitted_at=instant("Submit"),
            eligible_at=instant("Eligible"),
            started_at=instant("Start"),
            finished_at=instant("End"),
            state=row["State"].split(" ")[0],
            name=row.get("JobName", ""),
            user=row.get("User", ""),
            account=row.get("Account", ""),
            platform=",".join(filter(None, platform)),
            slots=max(1, int(slots)) if slots.isdigit() else 1,
            nodes=row.get("NodeList", ""),
        )


def _attempt(row: _Row, reading: Reading) -> Attempt:
    if row.submitted_at is None:
        reading.refuse("found no time of submission; allowed: one for each job")
    if "." in row.id:
        reading.leave_out("steps of jobs")
    if row.eligible_at is None:
        reading.leave_out("not yet eligible" if row.state in _OPEN else "never eligible")
    nodes = nodes_of(row.nodes) if row.started_at is not None else []
    if len(nodes) > 1:
        reading.noted["on several nodes, counted on the first"] += 1
    is_open = row.finished_at is None or row.state in _OPEN
    return Attempt(
        id=f"{row.id}@{row.submitted_at:.0f}",
        submitted_at=row.submitted_at,
        eligible_at=row.eligible_at,
        started_at=row.started_at,
        finished_at=None if is_open else row.finished_at,
        result="open" if is_open else _RESULTS.get(row.state, "failed"),
        job=row.id,
        attempt=0,
        runner=nodes[0] if nodes else "",
        slots=row.slots,
        platform=row.platform,
        kind=row.name,
        user=row.user,
        attributes={"account": row.account},
    )


def nodes_of(text: str) -> list[str]:
    """Return the names in a list of nodes: ``n[02-03,7],gpu1`` is n02, n03, n7, gpu1."""
    if text in _NONE or text == "None assigned":
        return []
    found = []
    for prefix, ranges in re.findall(r"([^\[\],]+)(?:\[([^\]]*)\])?", text):
        if not ranges:
            found.append(prefix)
        for part in ranges.split(",") if ranges else ():
            low, _, high = part.partition("-")
            if low.isdigit() and (high or low).isdigit() and int(high or low) - int(low) < 10_000:
                numbers = range(int(low), int(high or low) + 1)
                found.extend(f"{prefix}{number:0{len(low)}d}" for number in numbers)
    return found


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield jobs as ``sacct --json`` has them, in whole seconds."""
    words = {
        "succeeded": "COMPLETED",
        "cancelled": "CANCELLED",
        "lost": "NODE_FAIL",
        "open": "RUNNING",
    }
    numbers: dict[str, int] = {}
    yield {
        "jobs": [
            {
                "job_id": numbers.setdefault(one.job or one.id, len(numbers) + 1),
                "name": one.kind,
                "user": one.user,
                "partition": one.platform,
                "nodes": one.runner,
                "required": {"CPUs": one.slots},
                "state": {"current": [words.get(one.result, "FAILED")]},
                "time": {
                    "submission": int(one.submitted_at),
                    "eligible": int(one.arrived_at),
                    "start": int(one.started_at or 0),
                    "end": int(one.finished_at or 0),
                },
            }
            for one in attempts
        ]
    }
