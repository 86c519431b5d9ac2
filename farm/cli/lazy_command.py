"""Commands that are imported on first use, and those that installed packages add."""

from __future__ import annotations

import gc
import re
from collections.abc import Container
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand

from farm.core.errors import InputError
from farm.terminal.options import with_docstring

#: the group of entry points by which a package adds commands
GROUP = "farm.commands"


class LazyCommand(TyperCommand):
    """A command that is imported on first use: a function, or a Typer app, of a module.

    The list of commands shows the first line of each docstring, which is read from the source.
    """

    def __init__(self, name: str, module: str, attribute: str) -> None:
        super().__init__(name)
        self._module = module
        self._attribute = attribute

    def said(self) -> str:
        """Return the command's summary; raises InputError if there is no such command."""
        if found := re.search(
            rf'^def {self._attribute}\((?:(?!^def ).)*?\)(?: -> \w+)?:\n +"""([^"\n]+)',
            self._source(),
            re.DOTALL | re.MULTILINE,
        ):
            return found[1]
        return (self.load().help or "").partition("\n")[0]

    def _source(self) -> str:
        try:
            spec = find_spec(self._module)
            return Path(spec.origin or "").read_text("utf-8") if spec else ""
        except (ImportError, OSError, ValueError):
            return ""

    def load(self) -> Any:
        """Return the command itself; raises InputError if it cannot be loaded."""
        try:
            found = getattr(import_module(self._module), self._attribute)
            gc.freeze()  # imports are cached
            gc.enable()
            if isinstance(found, typer.Typer):
                return typer.main.get_command(found)
            only = typer.Typer(add_completion=False, rich_markup_mode=None)
            only.command(name=self.name)(found)
            return with_docstring(typer.main.get_command(only), found.__doc__)
        except Exception as error:
            where = f"{self._module}:{self._attribute}"
            message = f"{type(error).__name__}: {error}"
            raise InputError(
                f"the command {self.name} cannot be loaded from {where}: {message}"
            ) from error

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return a context of the imported command, which runs and shows its help."""
        return self.load().make_context(*args, **extra)


def installed_commands(taken: Container[str]) -> dict[str, LazyCommand]:
    """Return the commands that installed packages add, by name.

    One whose name is taken is left out, with a warning.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and few commands need it

    found: dict[str, LazyCommand] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name in taken or entry.name in found:
            warn(f"the command {entry.name} of {entry.value} is left out: the name is taken")
        else:
            found[entry.name] = LazyCommand(entry.name, entry.module, entry.attr)
    return found


def warn(text: str) -> None:
    """Print a warning on standard error."""
    typer.echo(f"warning: {text}", err=True)
