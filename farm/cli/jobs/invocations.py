"""``farm invocations``: the present fair-share tree of a farm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farm.app.long_running.invocations import ExecutingJob, Invocations, QueuedJob, invocations_of
from farm.app.long_running.snapshots import image_from
from farm.core.errors import InputError
from farm.core.queues.fair_share.listing import Filter, InvocationView
from farm.terminal.console import plain
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json
from farm.terminal.tables import Column, Listing, folding, numbers, texts
from farm.units import format_roughly, many

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


def invocations(
    path: Annotated[str, typer.Argument(metavar="[PATH]")] = "",
    queued: Annotated[bool, typer.Option("--queued")] = False,
    active: Annotated[bool, typer.Option("--active")] = False,
    everything: Annotated[bool, typer.Option("--all")] = False,
    snapshot: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    limit: Annotated[int, typer.Option(min=0)] = 20,
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List invocations with their waiting jobs, executing slots and idle builders.

    For each platform: the invocations below PATH, the waiting jobs in dispatch order, the running
    jobs, and the idle builders by the invocation that they last served; of jobs also the expected
    run time, and for how long they have waited or run. With --json: one object per platform.
    farm jobs --invocation PATH lists the jobs in pages; farm cancel --invocation PATH cancels all.

    Args:
        path: An invocation, such as team or team/user.
        queued: Only invocations with waiting jobs, in order of their turn, and these jobs.
        active: Only invocations with waiting or running jobs, and these jobs.
        everything: Also invocations that only idle builders keep, and these builders (the
            default).
        snapshot: A file written by farm snapshot, instead of the live farm.
        limit: Maximum number of rows per table; 0: no limit.
    """
    if queued + active + everything > 1:
        raise InputError("found several of --queued, --active, --all; allowed: one of them")
    show: Filter = "queued" if queued else "active" if active else "all"
    image = image_from(snapshot, redis, folder)
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
    note(plain(f"{where}: {waiting} waiting, {executing} executing, {idle} idle"))
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
    for columns, rows in tables:
        if rows:
            note(Listing(columns, rows))


def _child(one: InvocationView) -> tuple[str, ...]:
    priority = "" if one.priority is None else str(one.priority)
    counts = (str(one.waiting), str(one.executing), str(one.free))
    return (one.path[-1], *counts, priority, format_roughly(one.started_at))


def _times(job: QueuedJob | ExecutingJob, since: float) -> tuple[str, ...]:
    return str(job.priority), format_roughly(job.estimated_time), format_roughly(since)


def _path(path: tuple[str, ...]) -> str:
    return " / ".join(path) or "-"
