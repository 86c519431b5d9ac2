"""``farm jobs``: lists jobs, or to whom they are charged."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from farm.app.jobs.filter import JobFilter, JobState
from farm.app.jobs.job_descriptions import row_of
from farm.app.long_running.farm_place import reach
from farm.app.long_running.invocations import ExecutingJob, Invocations, QueuedJob, invocations_of
from farm.app.long_running.snapshots import image_from
from farm.cli.jobs.job_options import Wanted, Where, filter_of
from farm.core.errors import InputError
from farm.core.queues.fair_share.listing import Filter, InvocationView
from farm.live.operating.farm_image import FarmImage
from farm.live.store.job_reader import KnownJob, state_of
from farm.terminal.console import coloured
from farm.terminal.field_options import with_fields
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json, remark, warn
from farm.terminal.tables import Column, Listing, folding, numbers, texts
from farm.units import format_roughly, many

COLUMNS = (
    *texts("job", "state", "platform", "kind", "user", "builder"),
    *numbers("response"),
    *folding("reason"),
)
FIRST_TO_GO = ("kind", "reason", "response", "user", "builder", "platform")


#: what is listed of invocations, by the state of jobs
SHOWN: dict[str, Filter] = {"all": "all", "live": "active", "waiting": "queued"}
By = Literal["team"]


@with_fields
def jobs(
    *,
    where: Where = None,
    by: Annotated[By | None, typer.Option("--by")] = None,
    path: Annotated[str, typer.Argument(hidden=True)] = "",
    snapshot: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    state: Annotated[JobState | None, typer.Option(hidden=True)] = None,
    wanted: Wanted,
    stable: Annotated[bool, typer.Option("--in-order")] = False,
    after: Annotated[str | None, typer.Option(metavar="ID")] = None,
    offset: Annotated[int, typer.Option(min=0)] = 0,
    limit: Annotated[int | None, typer.Option(min=0)] = None,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List the jobs of a live farm.

    Waiting jobs come first, in dispatch order by platform, then running ones, then ended ones
    (newest first); ended ones only with state=all, ended, succeeded, failed or cancelled. With
    --json: one object per line.

    With --by team, under fair share: for each platform the invocations (teams, or those below
    invocation=TEAM) with their waiting jobs, executing slots and idle builders, the waiting jobs in
    dispatch order, the running jobs, and the idle builders by the invocation that they last served;
    of jobs also the expected run time. Only with state=waiting: invocations with waiting jobs, in
    order of their turn; with state=live: those with waiting or running jobs.

    Args:
        by: To whom jobs are charged.
        path: With --by team: the invocation.
        snapshot: With --by team: a file written by farm status --save, instead of the live farm.
        state: Which jobs; live: waiting or running.
        stable: Sort by submission: pages then neither skip nor repeat jobs while the farm runs.
            Implied by state=all.
        after: Only jobs submitted after this one, in that order.
        offset: Skip this many jobs.
        limit: Rows per page, or of a table; 0: no limit. Default: 50; with --by team 20.

    Examples:
        farm jobs                              what waits and runs
        farm jobs --where user=bob,state=all   all jobs of bob, ended ones too
        farm jobs --by team                    whose turn it is, under fair share
    """
    states = [one.value for one in JobState]
    states.sort(key=lambda one: one != ("all" if by else "live"))
    wanted, _ = filter_of(wanted, where, state, states)
    if by:
        only = JobFilter(state=wanted.state, invocation=wanted.invocation)
        if wanted != only or wanted.state.value not in SHOWN:
            allowed = f"invocation, and state={'|'.join(SHOWN)}"
            raise InputError(f"--where: found {wanted.words()}; allowed with --by team: {allowed}")
        image, at = image_from(snapshot, redis, folder), path or wanted.invocation or ""
        limit = 20 if limit is None else limit
        show_invocations(image, at, SHOWN[wanted.state.value], limit, as_json=as_json)
        return
    if path or snapshot is not None:
        what = "--snapshot" if snapshot else repr(path)
        raise InputError(f"found {what} without --by team; allowed: --where, as id={path or 'ID'}")
    state, limit = wanted.state, 50 if limit is None else limit
    stable = stable or after is not None or state is JobState.ALL
    with reach(redis, folder) as client:
        client.status()
        found = wanted.found(client, stable=stable, after=after, offset=offset, warn=warn)
        page = islice(found, limit or None)
        if as_json:
            for one in page:
                print_json(row_of(one))
            return
        shown = list(page)
        more = limit > 0 and next(found, None) is not None
    note(Listing(COLUMNS, map(_cells, shown), first_to_go=FIRST_TO_GO))
    if more:
        place = f"--after {shown[-1].job.id}" if stable else f"--offset {offset + limit}"
        remark(f"more: farm jobs {wanted.words()} {place}")


def _cells(job: KnownJob) -> list[Any]:
    row = row_of(job)
    response = row.get("response_time_s")
    return [
        job.job.id,
        coloured(state_of(job)),
        row["platform"],
        job.job.kind,
        row["user"] or "",
        row["builder"] or "",
        "" if response is None else format_roughly(response),
        row.get("reason") or "",
    ]


_CHILDREN = (
    *texts("invocation"),
    *numbers("waiting", "executing", "idle", "priority", "last start"),
)
_QUEUE = (*texts("next to go"), *folding("invocation"), *numbers("priority", "expected", "waiting"))
_EXECUTING = (
    *texts("executing"),
    *folding("invocation"),
    *texts("builder"),
    *numbers("priority", "expected", "running"),
)
_IDLE = (*texts("idle builder"), *folding("last invocation"))


def show_invocations(
    image: FarmImage, path: str, show: Filter, limit: int, *, as_json: bool
) -> None:
    """Print the invocations below a path, platform by platform, at most ``limit`` rows a table."""
    parts = tuple(part for part in path.split("/") if part)
    found = invocations_of(image, parts, show, limit or None)
    for one in found:
        if as_json:
            print_json(one)
        else:
            _show(one)
    if not found and not as_json:
        typer.echo("nothing has been submitted yet: there are no invocations")


def _show(found: Invocations) -> None:
    where = "/".join((found.platform, *found.invocation)) if found.invocation else found.platform
    executing, idle = many(found.executing_slots, "slot"), many(found.idle_slots, "slot")
    waiting = many(found.waiting, "job")
    note(f"{where}: {waiting} waiting, {executing} executing, {idle} idle")
    tables: tuple[tuple[tuple[Column, ...], list[tuple[str, ...]]], ...] = (
        (_CHILDREN, [_child(one) for one in found.children]),
        (_QUEUE, [(q.job, _path(q.invocation), *_times(q, q.waiting_time)) for q in found.queue]),
        (
            _EXECUTING,
            [
                (e.job, _path(e.invocation), f"{e.builder}/{e.slot}", *_times(e, e.running_time))
                for e in found.executing
            ],
        ),
        (_IDLE, [(f"{i.builder}/{i.slot}", _path(i.last_invocation)) for i in found.idle]),
    )
    note(*(Listing(columns, rows) for columns, rows in tables if rows))


def _child(one: InvocationView) -> tuple[str, ...]:
    priority = "" if one.priority is None else str(one.priority)
    counts = (str(one.waiting), str(one.executing), str(one.free))
    return (one.path[-1], *counts, priority, format_roughly(one.started_at))


def _times(job: QueuedJob | ExecutingJob, since: float) -> tuple[str, ...]:
    return str(job.priority), format_roughly(job.estimated_time), format_roughly(since)


def _path(path: tuple[str, ...]) -> str:
    return " / ".join(path) or "-"
