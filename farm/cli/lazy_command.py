"""Commands that are imported on first use, and those that installed packages add."""

from __future__ import annotations

import gc
import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand

from farm.core.errors import InputError
from farm.terminal.command_help import with_docstring
from farm.terminal.options import with_short_forms

#: the group of entry points by which a package adds commands
GROUP = "farm.commands"
DOCSTRING = re.compile(r'\)(?: -> \w+)?:\n +"""([^"\n]+)')


class LazyCommand(TyperCommand):
    """A command that is imported on first use: the function of this name in a module.

    The list of commands shows the first line of each docstring, which is read from the source.
    """

    def __init__(self, name: str, module: str, function: str) -> None:
        super().__init__(name)
        self._module = module
        self._function = function

    def summary(self) -> str:
        """Return the command's summary."""
        package, *inner = self._module.split(".")
        spec = find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            path = Path(place, *inner).with_suffix(".py")
            if inner and path.exists():
                return _first_line(path.read_text("utf-8"), self._function)
        return ""

    def load(self) -> Any:
        """Return the command itself."""
        found = getattr(import_module(self._module), self._function)
        gc.freeze()  # imports are cached
        gc.enable()
        if isinstance(found, typer.Typer):
            return _described(typer.main.get_command(found), self.name)
        only = typer.Typer(add_completion=False, rich_markup_mode=None)
        only.command(name=self.name)(with_short_forms(found))
        return with_docstring(typer.main.get_command(only), found.__doc__)

    def make_context(self, *args: object, **extra: object) -> Any:
        """Return a context of the imported command, which runs and shows its help."""
        return self.load().make_context(*args, **extra)


def _described(group: Any, name: str | None) -> Any:
    """Return an app's command, those of a group with the help in their docstrings."""
    group.name = name
    for command in getattr(group, "commands", {}).values():
        if docstring := getattr(command.callback, "__doc__", None):
            with_docstring(command, docstring)
            command.short_help = command.help.partition("\n")[0]
    return group


def _first_line(source: str, function: str) -> str:
    """Return the first line of a function's docstring; empty if there is none."""
    _, _, after = source.partition(f"\ndef {function}(")
    found = DOCSTRING.search(after.partition("\ndef ")[0])
    return found[1] if found else ""


class InstalledCommand(LazyCommand):
    """A command that an installed package adds: a function, or a Typer app.

    Raises InputError if it cannot be loaded.
    """

    def summary(self) -> str:
        """Return the summary; that of an app is known when it is loaded."""
        with self._errors_named():
            return super().summary() or str(self.load().help or "").partition("\n")[0]

    def load(self) -> Any:
        """Return the command itself."""
        with self._errors_named():
            return super().load()

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"the command {self.name} cannot be loaded from {self._module}:{self._function}: "
                f"{type(error).__name__}: {error}"
            ) from error


def installed_commands(taken: Container[str]) -> dict[str, InstalledCommand]:
    """Return the commands that installed packages add, sorted by name.

    One whose name is taken is left out, with a warning.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and few commands need it

    found: dict[str, InstalledCommand] = {}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name in taken or entry.name in found:
            warn(f"the command {entry.name} of {entry.value} is left out: the name is taken")
        else:
            found[entry.name] = InstalledCommand(entry.name, entry.module, entry.attr)
    return found


def warn(text: str) -> None:
    """Print a warning on standard error, on one line."""
    typer.echo(f"warning: {' '.join(text.split())}", err=True)
