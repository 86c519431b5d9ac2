"""Options of a command that are the fields of a record: declared and explained there.

A parameter ``wanted: Annotated[JobFilter, Fields()] = JobFilter()`` becomes an option for each
field that has a comment (``#: …``) above it, which is the option's help.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import typer
from typer.models import OptionInfo


class Fields(NamedTuple):
    """How the fields of a record are options."""

    #: begins the help of each
    prefix: str = ""
    #: only these; all that have a comment, if there are none
    names: tuple[str, ...] = ()
    #: what their own declaration does not say
    options: Mapping[str, OptionInfo] = {}


def with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with options in the place of each parameter that is a record."""
    given = list(inspect.signature(command, eval_str=True).parameters.values())
    records = {p.name: p.default for p in given if isinstance(p.default, msgspec.Struct)}
    options = {p.name: list(_options(p)) for p in given if p.name in records}
    shown = [
        one.replace(kind=Parameter.KEYWORD_ONLY) for p in given for one in options.get(p.name, [p])
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        for name, record in records.items():
            own = {one.name: values.pop(one.name) for one in options[name]}
            for field, value in own.items():
                if isinstance(getattr(record, field), tuple):
                    own[field] = tuple(value or ())
            values[name] = msgspec.structs.replace(record, **own)
        command(**values)

    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _options(parameter: Parameter) -> Iterator[Parameter]:
    """Yield a parameter for each option of a record."""
    record, how = parameter.default, get_args(parameter.annotation)[1]
    hints = get_type_hints(type(record), include_extras=True)
    comments = _comments_of(type(record))
    for name in how.names or comments:
        hint, default = hints[name], getattr(record, name)
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        declared = [mark for mark in marks if isinstance(mark, OptionInfo)]
        option = copy.copy(how.options.get(name) or next(iter(declared), typer.Option()))
        option.help = how.prefix + (comments[name] if how.prefix else _sentence(comments[name]))
        kind = get_args(hint)[0] if marks else hint
        if isinstance(default, tuple):
            kind, default = list[str] | None, None
        yield Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )


def _comments_of(record: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the comments above a record's own fields say."""
    above = re.findall(r"((?:^ +#: .*\n)+) +(\w+): ", inspect.getsource(record), re.MULTILINE)
    return {
        name: " ".join(re.sub(r"(?m)^ +#: |``", "", text).split()) + "." for text, name in above
    }


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
