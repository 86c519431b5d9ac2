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
_Match = Annotated[
    str | None,
    typer.Option(
        "--match", metavar="PATTERN", help="Only ids that match this shell pattern, such as 'a-*'."
    ),
]
_User = Annotated[str | None, typer.Option(help="Only jobs of this user (attribute user).")]
_Kind = Annotated[str | None, typer.Option(help="Only jobs of this kind.")]
_Matrix = Annotated[str | None, typer.Option("--matrix", help="Only jobs of this matrix.")]
_Platform = Annotated[
    str | None, typer.Option("--platform", help="Only this platform, such as amd64/virtual.")
]
_Pool = Annotated[
    str | None,
    typer.Option("--pool", help="Only jobs that run or ended on this pool's builders."),
]
_Attribute = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Only with this attribute; repeatable."),
]
_OPTIONS = {
    "match": _Match, "pool": _Pool, "user": _User, "kind": _Kind, "matrix": _Matrix,
    "platform": _Platform, "attribute": _Attribute,
}  # fmt: skip


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
