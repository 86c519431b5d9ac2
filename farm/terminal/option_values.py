"""Values of options that need no conversion, or one that Python does itself.

Typer converts every value by pydantic, also those that are absent: that takes longer to import and
to prepare than most commands take. What is plain already is taken as it is; the rest, and whatever
is wrong, is left to Typer, whose messages stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.models import ParameterInfo

#: what a conversion returns for a value that is Typer's to convert, or to refuse
NOT_PLAIN = object()
#: what a declaration may ask of a path that is more than Typer's default
PATH_CHECKS = ("exists", "writable", "resolve_path", "allow_dash", "path_type")


class PlainValues:
    """Converts the values of a parameter: plain ones at once, others as Typer does."""

    def __init__(self, kind: Any, declared: ParameterInfo, by_typer: Callable[[], Any]) -> None:
        self._kind = kind
        self._declared = declared
        self._by_typer = by_typer

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as the command gets it; Typer calls this."""
        takes_several = param.multiple or param.nargs == -1
        if value is None:
            return () if takes_several else None
        plain = NOT_PLAIN
        if not takes_several:
            plain = self._plain(self._kind, value)
        elif get_origin(self._kind) is list and isinstance(value, list | tuple):
            plain = self._plain_list(get_args(self._kind)[0], value)
        if plain is NOT_PLAIN:
            return self._by_typer().coerce(value, param=param, ctx=ctx)
        return plain

    def _plain_list(self, kind: Any, values: Sequence[Any]) -> Any:
        converted = [self._plain(kind, value) for value in values]
        return NOT_PLAIN if NOT_PLAIN in converted else converted

    def _plain(self, kind: Any, value: Any) -> Any:
        """Return a value of this kind; NOT_PLAIN: Typer has to look at it."""
        if self._declared.parser is not None:
            return NOT_PLAIN
        if kind is str and isinstance(value, str):
            return value
        if kind is Path and isinstance(value, str | Path) and self._takes_path(value):
            return Path(value)
        if get_origin(kind) is Literal and isinstance(value, str) and value in get_args(kind):
            return value
        if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value)
        if kind in (int, float) and type(value) is kind and self._is_within(value):
            return value
        return NOT_PLAIN

    def _takes_path(self, path: str | Path) -> bool:
        """Return whether nothing is asked of the path but that an existing one can be read."""
        declared = self._declared
        if any(getattr(declared, check) for check in PATH_CHECKS):
            return False
        if not (declared.file_okay and declared.dir_okay):
            return False
        return not os.path.lexists(path) or os.access(path, os.R_OK)

    def _is_within(self, number: float) -> bool:
        least, most = self._declared.min, self._declared.max
        return (least is None or number >= least) and (most is None or number <= most)


def take_plain_values(command: Any) -> Any:
    """Return the command, whose parameters take plain values as they are."""
    parse_args = command.parse_args

    def parse_plain_args(ctx: Any, args: list[str]) -> Any:
        prepare_parameters(command, ctx)
        return parse_args(ctx, args)

    command.parse_args = parse_plain_args
    return command


def prepare_parameters(command: Any, ctx: Any) -> None:
    """Let the parameters of a command, ``--help`` too, take plain values as they are."""
    for parameter in command.get_params(ctx):
        by_typer = getattr(parameter, "get_runtime_param", None)
        described = getattr(parameter, "type_descriptor", None)
        if by_typer is None or described is None:  # a Typer that does not convert by pydantic
            continue
        if "get_runtime_param" in vars(parameter):
            continue
        values = PlainValues(described.annotation, described.parameter_info, by_typer)
        parameter.get_runtime_param = lambda values=values: values
