"""Options of a command that are the fields of a record, where their types and defaults are.

A parameter ``wanted: Annotated[JobFilter, Fields()]`` becomes an option for each field that the
record's docstring explains under ``Attributes:``. For others the command says ``names``, and
explains them under ``Args:`` in its own docstring.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import typer
from typer.models import OptionInfo

from farm.core.errors import InputError
from farm.terminal.command_help import explanations


class Fields(NamedTuple):
    """How the fields of a record are options."""

    #: begins the help of each that the record explains
    prefix: str = ""
    #: only these; all that the record explains, if there are none
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
    explained = explanations(type(base).__doc__, "Attributes")
    for name in how.names or explained:
        hint, default = hints[name], getattr(base, name)
        kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        declared = [mark for mark in marks if isinstance(mark, OptionInfo)]
        option = copy.copy(how.options.get(name) or next(iter(declared), typer.Option()))
        option.hidden = option.hidden or how.hidden
        if text := explained.get(name):
            option.help = how.prefix + text if how.prefix else text[:1].upper() + text[1:]
        if isinstance(default, dict):
            kind, default, option.metavar = list[str] | None, None, "KEY=VALUE"
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
