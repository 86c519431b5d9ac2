"""``farm jobs --by team``: to whom jobs are charged."""

from __future__ import annotations

from pathlib import Path

import typer

from farm.app.long_running.invocations import ExecutingJob, Invocations, QueuedJob, invocations_of
from farm.app.long_running.snapshots import image_from
from farm.core.queues.fair_share.listing import Filter, InvocationView
from farm.terminal.cells import ListingColumn, folding, numbers, texts
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing
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


def show(
    farm: tuple[Path | None, str | None, Path],
    path: str,
    wanted: Filter,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Print the invocations below a path, platform by platform, at most ``limit`` rows a table.

    ``farm``: as for ``image_from``.
    """
    parts = tuple(part for part in path.split("/") if part)
    found = invocations_of(image_from(*farm), parts, wanted, limit or None)
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
    tables: tuple[tuple[tuple[ListingColumn, ...], list[tuple[str, ...]]], ...] = (
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
