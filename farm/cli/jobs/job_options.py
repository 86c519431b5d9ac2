"""Arguments and options that select jobs, shared by ``jobs``, ``cancel`` and ``retry``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from farm.app.jobs.filter import JobFilter
from farm.terminal.field_options import Fields

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Job ids; - reads them from standard input."),
]

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="KEY=VALUE,…",
        help="Jobs that are like this, as user=bob,state=waiting: state, id (a pattern such as "
        "'a-*'), user, kind, matrix, platform, pool, invocation (TEAM/USER, or below it), "
        "attribute.NAME; repeatable, all must match.",
    ),
]
#: conditions by an option of their own, as in an earlier release
Wanted = Annotated[JobFilter, Fields(hidden=True)]


def filter_of(
    wanted: JobFilter, where: list[str] | None, state: str | None, states: Iterable[str]
) -> tuple[JobFilter, bool]:
    """Return the filter of ``--where`` and older options, and whether it says anything.

    Without a state it is the first of those that are allowed. Raises InputError.
    """
    allowed = [*states]
    filtered = bool(where) or state is not None or wanted.names_some
    wanted = msgspec.structs.replace(wanted, state=state or allowed[0])
    return wanted.where(where or (), allowed), filtered
