"""The help of a command, from its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import typer


def with_docstring(command: Any, docstring: str | None) -> Any:
    """Return the command with the help of its options, from ``Args:`` in its docstring."""
    command.help, _, arguments = inspect.cleandoc(docstring or "").partition("\n\nArgs:\n")
    texts = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE))
    for parameter in command.params:
        if parameter.name in texts:
            parameter.help = " ".join(texts[parameter.name].split())
    return command


def command_group(function: Callable[[], None]) -> typer.Typer:
    """Return a group of commands, which the function's docstring describes."""
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.callback()(function)
    return made
