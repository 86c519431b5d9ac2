"""``farm cancel`` and ``farm retry``: what is not to be done after all, and what is done again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach, warn_if_unattended
from farm.cli.job_filter import (
    Attribute,
    JobFilter,
    JobState,
    Kind,
    Match,
    OfMatrix,
    OfPlatform,
    OfPool,
    User,
)
from farm.cli.job_lines import standard_input
from farm.cli.jobs import unknown
from farm.cli.options import AsJson, Quiet
from farm.cli.showing import many
from farm.core.errors import InputError
from farm.core.events import CancelRequested
from farm.core.model import Job
from farm.live.operating.operator import Operator
from farm.live.store.job_reader import AT_ONCE, LiveJob
from farm.live.wire.job_limits import MAX_TEXT, flaw_of
from farm.live.wire.messages import UNSTAMPED

RETRIED = re.compile(r"(.*)~([0-9]+)\Z", re.DOTALL)

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Jobs by id; - reads ids from standard input."),
]


class LiveState(StrEnum):
    """What ``farm cancel --state`` takes."""

    LIVE = "live"
    WAITING = "waiting"
    RUNNING = "running"


class EndedState(StrEnum):
    """What ``farm retry --state`` takes."""

    ENDED = "ended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


def cancel(
    job_ids: Ids = None,
    state: Annotated[LiveState | None, typer.Option(help="Only those that wait, or run.")] = None,
    match: Match = None,
    pool: OfPool = None,
    user: User = None,
    kind: Kind = None,
    matrix: OfMatrix = None,
    platform: OfPlatform = None,
    attribute: Attribute = None,
    invocation: Annotated[
        str | None,
        typer.Option(help="Every live job charged to this invocation: a path such as team/user."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Kept with each job.")] = "cancelled by request",
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Cancel jobs: waiting ones end at once, running ones are stopped on their builders.

    Which: IDs (one a line of standard input, if the only ID is -), or every live job that is like
    all the options say, or --invocation.
    """
    wanted = JobFilter(
        state=JobState(state or LiveState.LIVE), match=match, user=user, kind=kind, matrix=matrix,
        platform=platform, pool=pool, attribute=tuple(attribute or ()),
    )  # fmt: skip
    filtered = state is not None or wanted.names_some
    if bool(job_ids) + filtered + (invocation is not None) != 1:
        raise InputError(
            "found nothing to cancel, or several ways to say what; allowed: IDs, or options that "
            "say what the jobs are like, or --invocation"
        )
    if len(reason) > MAX_TEXT or not reason.isprintable():
        raise InputError(f"--reason: found {reason!r:.60}; allowed: up to {MAX_TEXT} characters")
    with reach(redis, folder) as operator:
        warn_if_unattended(operator)
        if invocation is not None:
            path = tuple(invocation.strip("/").split("/"))
            operator.tell(CancelRequested(UNSTAMPED, invocation=path, reason=reason))
            names, ended = [], 0
        elif filtered:
            found = wanted.found(operator, stable=False)
            names, ended = [one.job.id for one in found], 0
        else:
            names, ended = _live_of(operator, _ids(job_ids or ()))
        for first in range(0, len(names), AT_ONCE):
            chunk = tuple(names[first : first + AT_ONCE])
            operator.tell(CancelRequested(UNSTAMPED, chunk, reason=reason))
    if as_json:
        asked = {"jobs": len(names), "matrix": matrix, "invocation": invocation}
        typer.echo(msgspec.json.encode({"asked": asked, "ended": ended}).decode())
    elif not quiet:
        what = many(len(names), "job") if invocation is None else f"all of {invocation}"
        before = f" ({ended:,} had ended already)" if ended else ""
        typer.echo(f"asked to cancel {what}{before}")


def retry(
    job_ids: Ids = None,
    state: Annotated[EndedState | None, typer.Option(help="Only those that ended so.")] = None,
    match: Match = None,
    pool: OfPool = None,
    user: User = None,
    kind: Kind = None,
    matrix: OfMatrix = None,
    platform: OfPlatform = None,
    attribute: Attribute = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run ended jobs again, each as a new job: ID~2, then ID~3, … The old stories stay.

    Which: IDs (one a line of standard input, if the only ID is -), or every ended job that is like
    all the options say and has not been tried again yet.
    """
    wanted = JobFilter(
        state=JobState(state or EndedState.ENDED), match=match, user=user, kind=kind,
        matrix=matrix, platform=platform, pool=pool, attribute=tuple(attribute or ()),
    )  # fmt: skip
    filtered = state is not None or wanted.names_some
    if bool(job_ids) == filtered:
        raise InputError(
            "found nothing to retry, or two ways to say what; allowed: IDs, or options that say "
            "what the jobs are like (--state failed)"
        )
    with reach(redis, folder) as operator:
        warn_if_unattended(operator)
        if filtered:
            found = list(wanted.found(operator, stable=True))
        else:
            found = _ended_of(operator, _ids(job_ids or ()))
        again = _next_tries(operator, found, once=filtered)
        operator.submit(again)
    if as_json:
        typer.echo(msgspec.json.encode({"submitted": [job.id for job in again]}).decode())
    elif filtered and not quiet:
        typer.echo(f"{many(len(again), 'job')} submitted again")
    elif not quiet:
        for one in again:
            typer.echo(one.id)


def _ids(given: Sequence[str]) -> list[str]:
    """Return the ids that are given, each once."""
    if list(given) == ["-"]:
        given = [line.strip() for line in standard_input()]
    return [name for name in dict.fromkeys(given) if name]


def _live_of(operator: Operator, names: list[str]) -> tuple[list[str], int]:
    """Return which of these have not ended, and how many have; InputError for an unknown one."""
    over = operator.known(names)
    if len(over) < len(names):
        operator.catch_up()  # they may have been submitted just now
        over = operator.known(names)
    for name in names:
        if name not in over:
            raise unknown(name)
    live = [name for name in names if not over[name]]
    return live, len(names) - len(live)


def _ended_of(operator: Operator, names: list[str]) -> list[LiveJob]:
    found = {one.job.id: one for one in operator.jobs_of(names)}
    if len(found) < len(names):
        operator.catch_up()
        found = {one.job.id: one for one in operator.jobs_of(names)}
    for name in names:
        if name not in found:
            raise unknown(name)
        if found[name].end is None:
            raise InputError(f"job {name!r} is {found[name].state}; allowed: a job that has ended")
    return list(found.values())


def _next_tries(operator: Operator, ended: list[LiveJob], *, once: bool) -> list[Job]:
    """Return the jobs that try these again; ``once``: not those that were tried again already."""
    numbered = [(one.job, *_stem_and_number(one.job.id)) for one in ended]
    taken: set[str] = set()
    again: dict[str, Job] = {}
    while numbered:
        names = [f"{stem}~{number + 1}" for _, stem, number in numbered]
        known = operator.known(names)
        further = []
        for (job, stem, number), name in zip(numbered, names, strict=True):
            if name in known or name in taken:
                further.append((job, stem, number + 1))
                continue
            taken.add(name)
            new = msgspec.structs.replace(job, id=name, arrived_at=None)
            if (flaw := flaw_of(new)) is not None:
                raise InputError(f"job {job.id!r} cannot be named anew: {flaw}")
            again[job.id] = new
        numbered = [] if once else further
    return [again[one.job.id] for one in ended if one.job.id in again]


def _stem_and_number(job_id: str) -> tuple[str, int]:
    match = RETRIED.match(job_id)
    return (match[1], int(match[2])) if match else (job_id, 1)
