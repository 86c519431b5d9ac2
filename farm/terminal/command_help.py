"""The help of a command, from its docstring and its signature.

Its first line is the command's summary, ``Args:`` explains its options (those that several commands
share are explained where they are declared, records under ``Attributes:`` in their docstrings), and
``Examples:`` end the help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

#: what stands for a value of a type; for others the name of the option does
WORDS: dict[object, str] = {int: "N", float: "X", Path: "FILE"}

SUMMARY = re.compile(r'\)(?: -> \w+)?:\n +"""([^"\n]+)')


def summary_in(source: str, function: str) -> str:
    """Return the first line of a function's docstring, for which nothing is imported.

    Empty if there is none.
    """
    _, _, after = source.partition(f"\ndef {function}(")
    found = SUMMARY.search(after.partition("\ndef ")[0])
    return found[1] if found else ""


def explanations(docstring: str | None, heading: str) -> dict[str, str]:
    """Return what a docstring says of each name under a heading, such as ``Args``."""
    _, _, section = inspect.cleandoc(docstring or "").partition(f"\n\n{heading}:\n")
    texts = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in texts}


def with_docstring(command: Any, docstring: str | None) -> Any:
    """Return the command with the help of its options, from ``Args:`` in its docstring.

    An option has one help text. Where several commands share it, it is the one with which the
    option is declared (``farm.terminal.options``), and docstrings leave it out. What a docstring
    explains all the same goes before it: it is about this command alone. ``Examples:``, a line
    each, end the help.
    """
    text, _, examples = inspect.cleandoc(docstring or "").partition("\n\nExamples:\n")
    command.help = text.partition("\n\nArgs:\n")[0]
    if examples:
        command.epilog = f"\b\nExamples:\n{examples}"
    texts = explanations(docstring, "Args")
    kinds = inspect.signature(command.callback, eval_str=True).parameters
    for parameter in command.params:
        if parameter.name in texts:
            parameter.help = texts[parameter.name]
        if parameter.metavar is None and not getattr(parameter, "is_flag", False):
            kind = kinds[parameter.name].annotation if parameter.name in kinds else str
            parameter.metavar = _word(kind, _name_of(parameter))
        if parameter.param_type_name == "argument":
            _without_type(parameter)
    return command


def _name_of(parameter: Any) -> str:
    name = str(parameter.opts[0]).lstrip("-").replace("_", "-").upper()
    return "TIME" if name.endswith("-TIME") else name


def _without_type(argument: Any) -> None:
    """Show an argument by its name alone: ``FILE``, ``[FILE]`` if it can be left out."""
    name = argument.metavar.strip("[]")
    argument.metavar = name
    argument.display_type_rich = lambda **_: ""
    argument.get_usage_pieces = lambda *_: [name if argument.required else f"[{name}]"]


def _word(kind: object, name: str) -> str:
    """Return what stands for a value in the help: ``N``, ``FILE``, ``a|b``, or the name."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    inner = [one for one in get_args(kind) if one is not type(None)]
    if inner:
        return _word(inner[0], name)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(one.value) for one in kind)
    return WORDS.get(kind, name)


def command_group(function: Callable[[], None]) -> typer.Typer:
    """Return a group of commands, which the function's docstring describes."""
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.callback()(function)
    return made
