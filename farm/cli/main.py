"""The command ``farm`` and its commands, each of which is imported on first use.

Exit codes: 0 done; 1 the run ended but something failed; 2 bad input, or output that cannot
be written, one clear message; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import farm
from farm.core.errors import InputError, nearest
from farm.terminal.error_messages import with_error_messages
from farm.terminal.options import with_docstring

#: the commands of each folder, and their heading in the help
COMMANDS = {
    "scenarios": "init examples schema import calibrate",
    "own_farm": "doctor twin",
    "runs": "run simulate sweep compare report audit export score study chaos",
    "live_farm": "up down status builders drain undrain pools snapshot scheduler acl join load",
    "jobs": "submit jobs job cancel priority policy retry invocations explain dead-letters",
    "forecasts": "estimate runtime-estimate whatif plan risk",
}
HEADINGS = {
    "scenarios": "Scenarios",
    "own_farm": "Your own farm",
    "runs": "Runs",
    "live_farm": "A long-running farm",
    "jobs": "Its jobs",
    "forecasts": "Forecasts",
}
#: names that no function can have, and commands in another command's module
FUNCTIONS, MODULES = {"import": "import_trace"}, {"undrain": "drain"}


class LazyCommand(TyperCommand):
    """A command that is imported on first use: the function of its name in FOLDER/NAME.py.

    The list of commands shows the first line of each docstring, which is read from the source.
    """

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(name)
        self._folder = folder
        self._function = FUNCTIONS.get(name, name.replace("-", "_"))
        self._module = MODULES.get(name, self._function)

    def said(self) -> str:
        """Return the command's summary."""
        path = Path(__file__).parent / self._folder / f"{self._module}.py"
        source = path.read_text(encoding="utf-8")
        start = rf'def {self._function}\(.*?\) -> None:\n    """([^"\n]+)'
        found = re.search(start, source, re.DOTALL)
        return found[1] if found else ""

    def load(self) -> Any:
        """Return the command itself."""
        only = typer.Typer(add_completion=False, rich_markup_mode=None)
        module = import_module(f"farm.cli.{self._folder}.{self._module}")
        gc.freeze()  # imports are cached
        gc.enable()
        function = getattr(module, self._function)
        only.command(name=self.name)(function)
        return with_docstring(typer.main.get_command(only), function.__doc__)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return a context of the imported command, which runs and shows its help."""
        return self.load().make_context(*args, **extra)


class Commands(TyperGroup):
    """The commands; a closed output pipe is not an error."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for folder, names in COMMANDS.items():
            self.commands.update({name: LazyCommand(folder, name) for name in names.split()})

    def list_commands(self, _: Any) -> list[str]:
        """Return the commands' names, in the order of the table."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, with what each does, under a heading for each folder."""
        for folder, names in COMMANDS.items():
            with formatter.section(HEADINGS[folder]):
                formatter.write_dl(
                    [(name, self.get_command(ctx, name).help) for name in names.split()]
                )

    def get_command(self, ctx: Any, name: str) -> Any:
        """Return a command."""
        found = super().get_command(ctx, name)
        if isinstance(found, LazyCommand):
            found.help = found.said()
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named; raises InputError with the nearest name."""
        if args[0] not in self.commands and (near := nearest(args[0], self.commands)):
            raise InputError(f"found no command {args[0]!r}; did you mean {near}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run one of them."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except BrokenPipeError:  # `farm … | head`; here, before Typer makes it exit code 1
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


app = typer.Typer(
    name="farm",
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farm {farm.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """An emulated build farm, live and in virtual time."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line ``farm``.

    Neither the imports nor what remains at the end is garbage: collecting it would take longer
    than many commands.
    """
    gc.disable()
    try:
        with_error_messages(app)
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
