"""Options that select jobs, shared by ``jobs``, ``cancel`` and ``retry``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from farm.app.jobs.filter import JobFilter

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Job ids; - reads them from standard input."),
]


def _option(what: str, metavar: str | None = None, kind: Any = str) -> Any:
    return Annotated[kind | None, typer.Option(metavar=metavar, help=what)]


_OPTIONS = {
    "match": _option("Only ids that match this shell pattern, such as 'a-*'.", "PATTERN"),
    "pool": _option("Only jobs that run or ended on this pool's builders."),
    "user": _option("Only jobs of this user (attribute user)."),
    "kind": _option("Only jobs of this kind."),
    "matrix": _option("Only jobs of this matrix."),
    "platform": _option("Only this platform, such as amd64/virtual."),
    "invocation": _option("Only jobs charged to this invocation, or below it.", "TEAM/USER"),
    "attribute": _option("Only with this attribute; repeatable.", "KEY=VALUE", list[str]),
}


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command; they are passed as its argument ``wanted``, a JobFilter."""
    own = [
        p
        for p in inspect.signature(command, eval_str=True).parameters.values()
        if p.name != "wanted"
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _OPTIONS.items()
    ]
    places = [p.name for p in own]
    after = places.index("state") + 1  # after the command's arguments, before its own options

    @wraps(command)
    def run(**given: Any) -> None:
        said = {name: given.pop(name) for name in _OPTIONS}
        said["attribute"] = tuple(said["attribute"] or ())
        command(wanted=JobFilter(**said), **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    parameters[after:after] = shared
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
