"""``slurm``: what ``sacct`` prints, as text with ``|`` between the fields, or ``--json``.

A job waits from ``Eligible`` (after its dependencies, begin time and holds). The text's times are
local, without a zone, which the user has to give. Slurm's own ``Planned`` is not used: it counts
until now for pending jobs, and until the end for those that were cancelled.

What a job depends on is in the command by which it was submitted (``SubmitLine``), if it was not in
the script, and of jobs in the queue in ``dependency``. There an array is named by its own id, which
only ``JobID`` tells apart from those of its tasks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple, TextIO

import msgspec

from farm.core.jobs.needs import need_of
from farm.records.attempt import Attempt, Result, by_word
from farm.records.reading import FIRST, Reading, members
from farm.records.source import Source

NEEDED = ("JobIDRaw", "Submit", "Eligible", "Start", "End", "State")
_NONE = {"", "Unknown", "None", "N/A"}
NOT_ASSIGNED = "None assigned"
"""The nodes of a job that never had any."""
_RESULTS: dict[str, Result] = by_word(
    {
        "succeeded": "COMPLETED",
        "cancelled": "CANCELLED REVOKED",
        "lost": "NODE_FAIL PREEMPTED BOOT_FAIL REQUEUED",
    }
)
#: columns that users fill, in which a bar or a line break may be: sacct writes both as they are
_FREE_TEXT = (
    "JobName",
    "Comment",
    "AdminComment",
    "SystemComment",
    "Extra",
    "SubmitLine",
    "WorkDir",
    "Reason",
)
#: the columns of processors that a job had, and those that it had asked for
_ALLOCATED = ("AllocCPUS", "NCPUS")
_GRES, _CPUS = re.compile(r"gres/([^=,]+)="), re.compile(r"\bcpu=(\d+)")
NO_PROCESSORS = "without a column of processors (AllocCPUS), counted as one each"
"""What is noted of jobs that may have taken any part of a node."""
ENDLESS = 2.0**32 - 2
"""From here on a number of seconds is how Slurm writes that there is none."""
_DEPENDENCY = re.compile(
    r"""(?:^|\s)(?:--dependency[=\s]|-d\s*)(["']?)((?:after|singleton|expand)[^\s"']*)\1"""
)
"""The option of sbatch, salloc and srun, in a line of words; a script may have its own ``-d``."""
_CONDITIONS = {
    "afterok": "succeeded",
    "aftercorr": "succeeded",
    "afterany": "ended",
    "afterburstbuffer": "ended",
    "afternotok": "failed",
}
_OTHER_DEPENDENCY = "that wait for a start, for any of several jobs or for their own name"
"""What is noted of jobs with a dependency that is no need."""
_WAITING = {"PENDING", "REQUEUE_HOLD", "CONFIGURING"}
"""The states of jobs that have not started."""
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


class _Array(msgspec.Struct):
    #: 0: it is of none
    job_id: int = 0


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
    submit_line: str = ""
    array: _Array = msgspec.field(default_factory=_Array)


class _Queued(msgspec.Struct):
    """A job of ``squeue --json``, or of slurmrestd's ``/jobs``.

    They are the controller's, not the database's. Of a job that has not started or not ended, the
    time of that is what is expected.
    """

    job_id: int
    submit_time: float | _Number = 0
    eligible_time: float | _Number = 0
    start_time: float | _Number = 0
    end_time: float | _Number = 0
    job_state: list[str] | str = []
    name: str = ""
    user_name: str = ""
    account: str = ""
    partition: str = ""
    nodes: str = ""
    features: str = ""
    cpus: float | _Number = 1
    dependency: str = ""
    array_job_id: float | _Number = 0


class _Row(msgspec.Struct):
    """A job of any form; instants are seconds since 1970."""

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
    #: what it depends on, as its option has it
    dependency: str = ""
    #: the id of its array; empty: it is of none
    array: str = ""


class _Farm(NamedTuple):
    """What is known of jobs by those of all files."""

    #: the nodes of jobs on several of them, by id
    nodes: dict[str, list[str]]
    jobs_of_array: dict[str, list[str]]


def knows(value: dict[str, object]) -> bool:
    """Return whether this is what ``sacct --json`` writes."""
    some = members(value, "jobs")[:1]
    is_job = bool(some) and isinstance(some[0], dict) and "job_id" in some[0]
    return is_job or {"jobs", "meta", "errors"} <= value.keys()


def knows_line(line: str) -> bool:
    """Return whether this is the header of sacct's text, also of one that cannot be read."""
    return set(NEEDED) <= set(line.strip().split("|")) or line.split()[:2] == ["JobID", "JobName"]


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the attempts: rows of one id are tries at one job.

    Which part of a job of several nodes each of them had is not recorded. So none of its nodes is
    named as a runner: counted on one, the others would look idle while they were busy.
    """
    farm = _Farm({}, defaultdict(list))
    attempts = list(_attempts(reading, farm))
    shared = {node for names in farm.nodes.values() for node in names}
    for attempt in attempts:
        if attempt.runner in shared:
            attempt.runner = ""
            reading.noted["on nodes that ran jobs of several nodes, so without a runner"] += 1
        needs = map(need_of, attempt.needs)
        attempt.needs = tuple(
            f"{job}:{need.condition}"
            for need in needs
            for job in farm.jobs_of_array.get(need.job, [need.job])
        )
        yield attempt


def _attempts(reading: Reading, farm: _Farm) -> Iterator[Attempt]:
    """Yield the attempts, each on its first node; the nodes of several go to ``farm``."""
    for text in reading.texts():
        first = text.readline(FIRST)
        if first.lstrip().startswith(("{", "[")):
            for value in reading.objects_of(text, first):
                yield from reading.attempts(members(value, "jobs"), partial(_attempt_of_json, farm))
        else:
            yield from reading.attempts(
                _text_rows(text, first, reading), partial(_attempt_of_text, farm)
            )


def _attempt_of_queue(farm: _Farm, value: object, reading: Reading) -> Attempt:
    job = reading.record(value, _Queued)
    state = job.job_state if isinstance(job.job_state, str) else " ".join(job.job_state[:1])
    cpus = job.cpus.number if isinstance(job.cpus, _Number) else job.cpus
    row = _Row(
        id=str(job.job_id),
        submitted_at=_known(job.submit_time),
        eligible_at=_known(job.eligible_time),
        started_at=None if state in _WAITING else _known(job.start_time),
        finished_at=_known(job.end_time),
        state=state,
        name=job.name,
        user=job.user_name,
        account=job.account,
        platform=",".join(filter(None, [job.partition, *job.features.split("&")])),
        slots=max(1, int(cpus)),
        nodes=job.nodes,
        dependency=job.dependency,
        array=f"{_known(job.array_job_id) or 0:.0f}",
    )
    return _attempt(row, farm, reading)


def _attempt_of_json(farm: _Farm, value: object, reading: Reading) -> Attempt:
    if isinstance(value, dict) and "submit_time" in value:
        return _attempt_of_queue(farm, value, reading)
    job = reading.record(value, _Job)
    at = job.time
    asked = sorted({one.name for one in job.tres.requested if one.type == "gres"})
    platform = [job.partition, *job.constraints.split("&"), *asked]
    state = job.state.current
    row = _Row(
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
        dependency=_option_in(job.submit_line),
        array=str(job.array.job_id),
    )
    return _attempt(row, farm, reading)


def _known(at: float | _Number) -> float | None:
    """Return an instant; None: it is none, or endless."""
    if isinstance(at, _Number):
        at = at.number if at.set and not at.infinite else 0.0
    return at if 0 < at < ENDLESS else None


def _text_rows(text: TextIO, first: str, reading: Reading) -> Iterator[dict[str, str]]:
    """Yield the rows by their columns."""
    header = first.strip().split("|")
    if missing := [name for name in NEEDED if name not in header]:
        reading.refuse(
            f"found no {', '.join(missing)}; allowed: sacct -a -X -P -D --format="
            "JobIDRaw,JobName,User,Account,Partition,Submit,Eligible,Start,End,State,AllocCPUS,"
            "NodeList,Constraints"
        )
    for line in _whole_lines(text, len(header)):
        cells = line.split("|")
        if not line.strip() or cells == header:  # what several calls print, in one file
            continue
        reading.count()
        if len(cells) != len(header):
            mended = _mended(cells, header)
            if mended is None:
                reading.leave_out_unreadable(
                    f"found {len(cells)} fields; allowed: {len(header)}, as in the header"
                )
                continue
            cells = mended
        yield dict(zip(header, cells, strict=True))


def _whole_lines(text: TextIO, width: int) -> Iterator[str]:
    """Yield the rows of a table, each without its end.

    A row with fewer fields than the header continues in the next line, if it has the other ones: a
    field of free text has a line break.
    """
    begun = ""
    for raw_line in text:
        line = raw_line.rstrip("\r\n")
        if begun:
            joined = f"{begun} {line}"
            if line.count("|") < width - 1 and joined.count("|") <= width - 1:
                begun = joined
            else:
                yield begun
                begun = line
        else:
            begun = line
        if begun.count("|") >= width - 1:
            yield begun
            begun = ""
    if begun:
        yield begun


def _mended(cells: list[str], header: list[str]) -> list[str] | None:
    """Return a row whose free text has bars, read from both ends; None: it cannot be known where.

    What lies right of the text must fit its columns: the instants are such, the state is known.
    """
    extra = len(cells) - len(header)
    if extra < 0:
        return None
    for name in _FREE_TEXT:
        if name not in header:
            continue
        place = header.index(name)
        after = place + extra + 1
        mended = [*cells[:place], "|".join(cells[place:after]), *cells[after:]]
        row = dict(zip(header, mended, strict=True))
        if all(_may_be_instant(row[column]) for column in ("Submit", "Eligible", "Start", "End")):
            return mended
    return None


def _may_be_instant(text: str) -> bool:
    return text in _NONE or (text[:1].isdigit() and " " not in text)


def _attempt_of_text(farm: _Farm, row: dict[str, str], reading: Reading) -> Attempt:
    def instant(name: str) -> float | None:
        return None if row[name] in _NONE else reading.moment(row[name], name)

    asked = sorted(set(_GRES.findall(row.get("ReqTRES", ""))))
    array, _, task = row.get("JobID", "").partition("_")
    platform = [row.get("Partition", ""), *row.get("Constraints", "").split("&"), *asked]
    return _attempt(
        _Row(
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
            slots=_processors(row, reading),
            nodes=row.get("NodeList", ""),
            dependency=_option_in(row.get("SubmitLine", "")),
            array=array if task else "",
        ),
        farm,
        reading,
    )


def _processors(row: dict[str, str], reading: Reading) -> int:
    """Return how many processors a job had, or had asked for if it never started."""
    counts = [row.get(name, "") for name in _ALLOCATED]
    counts += _CPUS.findall(row.get("AllocTRES", ""))
    counts.append(row.get("ReqCPUS", ""))
    counts += _CPUS.findall(row.get("ReqTRES", ""))
    known = [int(count) for count in counts if count.isdigit() and int(count) > 0]
    if not known:
        reading.noted[NO_PROCESSORS] += 1
    return known[0] if known else 1


def _attempt(row: _Row, farm: _Farm, reading: Reading) -> Attempt:
    if row.submitted_at is None:
        reading.unreadable("found no time of submission; allowed: one for each job")
    if "." in row.id:
        reading.leave_out("steps of jobs")
    if row.eligible_at is None:
        reading.leave_out("not yet eligible" if row.state in _OPEN else "never eligible")
    if row.nodes == NOT_ASSIGNED:
        # up to version 21 the start of a job that was cancelled in the queue is its end
        row.started_at = None
    nodes = nodes_of(row.nodes) if row.started_at is not None else []
    is_open = row.finished_at is None or row.state in _OPEN
    needs = _needs(row, reading)
    attempt_id = f"{row.id}@{row.submitted_at:.0f}"
    if len(nodes) > 1:
        farm.nodes[attempt_id] = nodes
    if row.array not in ("", "0"):
        farm.jobs_of_array[row.array].append(row.id)
    return Attempt(
        id=attempt_id,
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
        needs=needs,
        needs_known=bool(needs),
    )


def _option_in(command: str) -> str:
    """Return what a command's option says that its job depends on; empty: it has none."""
    found = _DEPENDENCY.search(command)
    return found[2] if found else ""


def _needs(row: _Row, reading: Reading) -> tuple[str, ...]:
    """Return the jobs, or arrays of them, that a job needs: ``afterok:500:501,afterany:502``."""
    needs: list[str] = []
    is_other = "?" in row.dependency
    for part in row.dependency.split(",") if not is_other else ():
        kind, *ids = part.strip().split(":")
        condition = _CONDITIONS.get(kind)
        is_other = is_other or (bool(kind) and condition is None)
        for name in ids if condition else ():
            # how far it is fulfilled, and all tasks of an array: afterok:500_*(unfulfilled)
            job = name.partition("(")[0].removesuffix("_*")
            needs.append(f"{job}:{condition}")
    if is_other:
        reading.noted[_OTHER_DEPENDENCY] += 1
    return tuple(needs)


def nodes_of(text: str) -> list[str]:
    """Return the names in a list of nodes: ``n[02-03,7],gpu1`` is n02, n03, n7, gpu1."""
    if text in _NONE or text == NOT_ASSIGNED:
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


SOURCE = Source(read, knows, write, resolution=1.0, unique_ids=False)
