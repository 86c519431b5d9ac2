"""The help of a command, from its docstring."""

from __future__ import annotations

import inspect
import re
from typing import Any


def with_docstring(command: Any, docstring: str | None) -> Any:
    """Return the command with the help of its options, from ``Args:`` in its docstring."""
    command.help, _, arguments = inspect.cleandoc(docstring or "").partition("\n\nArgs:\n")
    texts = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE))
    for parameter in command.params:
        if parameter.name in texts:
            parameter.help = " ".join(texts[parameter.name].split())
    return command
