"""Arguments and options that select jobs, shared by ``jobs``, ``cancel`` and ``retry``."""

from __future__ import annotations

from typing import Annotated

import typer

from farm.app.jobs.filter import JobFilter
from farm.terminal.field_options import Fields

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Job ids; - reads them from standard input."),
]

Wanted = Annotated[
    JobFilter,
    Fields(
        options={
            "match": typer.Option(metavar="PATTERN"),
            "invocation": typer.Option(metavar="TEAM/USER"),
        }
    ),
]
