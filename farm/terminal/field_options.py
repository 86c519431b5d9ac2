"""Options of a command that are the fields of a record: declared and explained there.

A parameter ``wanted: Annotated[JobFilter, Fields()]`` becomes an option for each field that has a
comment (``#: …``) above it, which is the option's help.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import typer
from typer.models import OptionInfo

from farm.core.errors import InputError


class Fields(NamedTuple):
    """How the fields of a record are options."""

    #: begins the help of each
    prefix: str = ""
    #: only these; all that have a comment, if there are none
    names: tuple[str, ...] = ()
    #: what their own declaration does not say
    options: Mapping[str, OptionInfo] = {}
    #: whether the help shows them
    hidden: bool = False
    #: the record if no option is given; None: that of the parameter's type
    base: msgspec.Struct | None = None


def with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with options in the place of each parameter that is a record.

    A field of texts by name becomes a repeatable option KEY=VALUE; raises InputError for another.
    """
    bases: dict[str, msgspec.Struct] = {}
    options: dict[str, list[Parameter]] = {}
    for p in inspect.signature(command, eval_str=True).parameters.values():
        kind, *marks = get_args(p.annotation) or (None,)
        options[p.name] = [p.replace(kind=Parameter.KEYWORD_ONLY)]
        if marks and isinstance(marks[0], Fields):
            bases[p.name] = marks[0].base or kind()
            options[p.name] = list(_options(bases[p.name], marks[0]))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, base in bases.items():
            own = {}
            for one in options[name]:
                value = values.pop(one.name)
                is_dict = isinstance(getattr(base, one.name), dict)
                own[one.name] = dict(_pairs(value or (), one)) if is_dict else value
            values[name] = msgspec.structs.replace(base, **own)
        command(**values)

    shown = [one for some in options.values() for one in some]
    vars(run)["__signature__"] = Signature(shown)
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _options(base: msgspec.Struct, how: Fields) -> Iterator[Parameter]:
    """Yield a parameter for each option of a record."""
    hints = get_type_hints(type(base), include_extras=True)
    comments = _comments_of(type(base))
    for name in how.names or comments:
        hint, default = hints[name], getattr(base, name)
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        declared = [mark for mark in marks if isinstance(mark, OptionInfo)]
        option = copy.copy(how.options.get(name) or next(iter(declared), typer.Option()))
        option.hidden = option.hidden or how.hidden
        about = comments[name]
        if isinstance(default, dict):
            kind, default, option.metavar = list[str] | None, None, "KEY=VALUE"
            about = f"{about.rstrip('.')}; repeatable."
        option.help = how.prefix + about if how.prefix else about[:1].upper() + about[1:]
        yield Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )


def _pairs(texts: Iterable[str], option: Parameter) -> Iterator[tuple[str, str]]:
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            # Typer takes the first name of an option for its default, until it is used
            flag = get_args(option.annotation)[1].default
            flag = flag if isinstance(flag, str) else f"--{option.name.replace('_', '-')}"
            raise InputError(f"{flag}: found {text!r:.60}; allowed: KEY=VALUE")
        yield key, value


def _comments_of(record: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the comments above a record's own fields say."""
    above = re.findall(r"((?:^ +#: .*\n)+) +(\w+): ", inspect.getsource(record), re.MULTILINE)
    texts = {name: re.sub(r"(?m)^ +#: |``", "", comment) for comment, name in above}
    return {name: " ".join(text.split()) + "." for name, text in texts.items()}
