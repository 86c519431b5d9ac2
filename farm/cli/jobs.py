"""``farm jobs``, ``job``, ``cancel``, ``retry``: what became of the work, and second thoughts."""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import chain, islice
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach, warn_if_unattended
from farm.cli.options import AsJson
from farm.core.errors import InputError
from farm.live.answers import Answer
from farm.live.messages import Cancel
from farm.live.operator import AT_ONCE, Group, LiveJob, Operator
from farm.units import format_duration

RETRIED = re.compile(r"(.*)~([0-9]+)\Z")
ENDED = ("succeeded", "failed", "cancelled")


class JobState(StrEnum):
    """What ``--state`` takes."""

    ALL = "all"
    LIVE = "live"
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


def jobs(
    state: Annotated[
        JobState, typer.Option(help="Which jobs; live ones wait or run.")
    ] = JobState.LIVE,
    pool: Annotated[
        str | None, typer.Option(help="Only jobs on this pool's builders, or that ended there.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only this user's (attribute user).")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this sort of work.")] = None,
    matrix: Annotated[str | None, typer.Option(help="Only jobs of this matrix.")] = None,
    platform: Annotated[str | None, typer.Option(help="Only such as amd64/virtual.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the first so many.")] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Rows of a page.")] = 50,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List jobs: waiting ones in policy order, then running ones, then ended ones (newest first).

    With --json: one object a line, and nothing else.
    """
    with reach(redis, folder) as operator:
        operator.status()
        found = chain.from_iterable(operator.jobs(group) for group in _groups(state))
        wanted = (
            job
            for job in found
            if (state in (JobState.ALL, JobState.LIVE) or _in_state(job, state.value))
            and (user is None or job.job.attributes.get("user") == user)
            and (kind is None or job.job.kind == kind)
            and (matrix is None or job.job.matrix == matrix)
            and (platform is None or str(job.job.platform) == platform)
            and (pool is None or _pool_of(job) == pool)
        )
        page = list(islice(wanted, offset, offset + limit + 1))
    more, page = len(page) > limit, page[:limit]
    if as_json:
        for one in page:
            typer.echo(msgspec.json.encode(row_of(one)).decode())
        return
    Console().print(_table(page))
    if more:
        typer.echo(f"more: farm jobs --state {state.value} --offset {offset + limit}", err=True)


def job(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Tell a job's story: where it is, why it waits, what became of it."""
    with reach(redis, folder) as operator:
        operator.status()
        found = operator.job(job_id)
        if found is None:
            raise _unknown(job_id)
        answer = operator.ask("job", job_id) if operator.is_attended() else None
    if as_json:
        typer.echo(msgspec.json.encode(_story_of(found, answer)).decode())
        return
    table = Table.grid(padding=(0, 2))
    for name, value in _story_of(found, answer).items():
        if value not in (None, "", [], {}):
            table.add_row(f"[bold]{name}", str(value))
    Console().print(table)


def cancel(
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...")] = None,
    matrix: Annotated[str | None, typer.Option(help="Every live job of this matrix.")] = None,
    invocation: Annotated[
        str | None,
        typer.Option(help="Every live job charged to this invocation: a path such as team/user."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Kept with each job.")] = "cancelled by request",
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs: waiting ones end at once, running ones are stopped on their builders.

    Ids are also read from standard input, one a line, if the only ID is -.
    """
    names = list(job_ids or ())
    if names == ["-"]:
        names = [line.strip() for line in typer.get_text_stream("stdin") if line.strip()]
    if not names and matrix is None and invocation is None:
        raise InputError("found nothing to cancel; allowed: IDs, --matrix, --invocation")
    with reach(redis, folder) as operator:
        warn_if_unattended(operator)
        unknown = set(names) - operator.known(names)
        if unknown:
            raise _unknown(next(name for name in names if name in unknown))
        path = None if invocation is None else tuple(invocation.strip("/").split("/"))
        for first in range(0, len(names), AT_ONCE):
            operator.tell(Cancel(jobs=tuple(names[first : first + AT_ONCE]), reason=reason))
        if matrix is not None or path is not None:
            operator.tell(Cancel(matrix=matrix, invocation=path, reason=reason))
    what = {"jobs": len(names), "matrix": matrix, "invocation": invocation}
    if as_json:
        typer.echo(msgspec.json.encode({"asked": what}).decode())
    else:
        typer.echo(f"asked to cancel {len(names):,} jobs" if names else "asked to cancel them")


def retry(
    job_ids: Annotated[list[str], typer.Argument(metavar="ID...")],
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """Run ended jobs again, each as a new job: ID~2, then ID~3, … The old stories stay."""
    with reach(redis, folder) as operator:
        warn_if_unattended(operator)
        again = [_next_try(operator, name) for name in job_ids]
        operator.submit(again)
    if as_json:
        typer.echo(msgspec.json.encode({"submitted": [job.id for job in again]}).decode())
    else:
        for one in again:
            typer.echo(one.id)


def _next_try(operator: Operator, job_id: str) -> Any:
    found = operator.job(job_id)
    if found is None:
        raise _unknown(job_id)
    if found.end is None:
        raise InputError(f"job {job_id!r} is {found.state}; allowed: a job that has ended")
    match = RETRIED.match(job_id)
    stem, number = (match[1], int(match[2])) if match else (job_id, 1)
    while True:
        number += 1
        name = f"{stem}~{number}"
        if not operator.known([name]):
            return msgspec.structs.replace(found.job, id=name, arrived_at=None)


def _unknown(job_id: str) -> InputError:
    return InputError(
        f"job {job_id!r} is not known to the farm (or it ended so long ago that it is forgotten); "
        "farm jobs --state all lists those that are"
    )


def _groups(state: JobState) -> tuple[Group, ...]:
    if state is JobState.ALL:
        return ("waiting", "running", "ended")
    if state is JobState.LIVE:
        return ("waiting", "running")
    if state is JobState.WAITING:
        return ("waiting",)
    return ("running",) if state is JobState.RUNNING else ("ended",)


def _in_state(job: LiveJob, state: str) -> bool:
    return state in ("waiting", "running", "ended") or job.state == state


def _builder_of(job: LiveJob) -> str | None:
    if job.attempt is not None:
        return job.attempt.builder
    return None if job.end is None else job.end.builder


def _pool_of(job: LiveJob) -> str | None:
    builder = _builder_of(job)
    return None if builder is None else builder.rpartition("-")[0]


def row_of(job: LiveJob) -> dict[str, Any]:
    """Return a job as the listing shows it, with the columns of jobs.csv where they are known."""
    row: dict[str, Any] = {
        "job_id": job.job.id,
        "state": job.state,
        "platform": str(job.job.platform),
        "kind": job.job.kind,
        "user": job.job.attributes.get("user"),
        "matrix": job.job.matrix,
        "declared_time_s": job.job.declared_time,
        "builder": _builder_of(job),
    }
    if job.attempt is not None:
        row["attempts"] = job.attempt.attempt
        row["dispatched_at_s"] = job.attempt.dispatched_at
        row["started_at_s"] = job.attempt.started_at
    if (end := job.end) is not None:
        began = end.started_at
        arrived = end.job.arrived_at if end.job.arrived_at is not None else end.submitted_at
        row |= {
            "attempts": end.attempts,
            "submitted_at_s": arrived,
            "dispatched_at_s": end.dispatched_at,
            "started_at_s": began,
            "finished_at_s": end.finished_at,
            "waiting_time_s": None if began is None else began - arrived,
            "response_time_s": end.finished_at - arrived,
            "reason": end.reason,
        }
    return row


def _story_of(job: LiveJob, answer: Answer | None) -> dict[str, Any]:
    story = row_of(job)
    story |= {"attributes": job.job.attributes, "level": job.job.level, "score": job.job.score}
    if answer is None:
        return story
    if answer.job is not None:
        now = answer.job
        story |= {
            "state": now.status,
            "attempts": now.attempts,
            "submitted_at_s": now.submitted_at,
            "waited_s": answer.at - now.submitted_at if now.ahead is not None else None,
            "estimated_time_s": now.estimated_time,
            "jobs_ahead": now.ahead,
            "estimated_dispatch_in_s": now.dispatch_in_time,
            "builders_that_could": now.builders,
            "of_them_taking_jobs": now.accepting,
            "of_them_free": now.free,
            "invocation": "/".join(now.path),
            "why_waiting": now.why,
        }
    if answer.decision is not None:
        story["dispatched_because"] = (
            f"key {list(answer.decision.key)} was the smallest of "
            f"{answer.decision.waiting + 1} (farm explain {job.job.id})"
        )
    return story


def _table(found: list[LiveJob]) -> Table:
    table = Table(box=None, header_style="bold")
    for name in ("job", "state", "platform", "kind", "user", "builder", "response"):
        table.add_column(name, no_wrap=name in ("job", "state"))
    for one in found:
        row = row_of(one)
        response = row.get("response_time_s")
        table.add_row(
            one.job.id,
            _coloured(one.state),
            row["platform"],
            one.job.kind,
            row["user"] or "",
            row["builder"] or "",
            "" if response is None else format_duration(round(response, 1)),
        )
    return table


def _coloured(state: str) -> str:
    colours = {"succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan"}
    return f"[{colours[state]}]{state}[/]" if state in colours else state
