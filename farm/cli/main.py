"""The command ``farm`` and its commands, each of which is imported on first use.

Exit codes: 0 done; 1 the run ended but something failed; 2 bad input, or output that cannot
be written, one clear message; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from functools import cached_property
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import farm
from farm.cli.lazy_command import InstalledCommand, LazyCommand, installed_commands, warn
from farm.core.errors import InputError, nearest
from farm.terminal.error_messages import with_error_messages

#: the commands of each folder, and their heading in the help
COMMANDS = {
    "scenarios": "init examples schema import calibrate",
    "own_farm": "doctor twin trace",
    "runs": "run simulate sweep compare report audit export score",
    "live_farm": "up down status builders drain undrain pools set snapshot scheduler acl join load",
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
FUNCTIONS, MODULES = {"import": "import_trace", "set": "set_keys"}, {"undrain": "drain"}


class Commands(TyperGroup):
    """The commands; a closed output pipe is not an error."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for folder, names in COMMANDS.items():
            for name in names.split():
                function = FUNCTIONS.get(name, name.replace("-", "_"))
                module = f"farm.cli.{folder}.{MODULES.get(name, function)}"
                self.commands[name] = LazyCommand(name, module, function)

    @cached_property
    def installed(self) -> dict[str, InstalledCommand]:
        """The commands that installed packages add; only who asks for these looks for them."""
        return installed_commands(self.commands)

    def list_commands(self, _: object) -> list[str]:
        """Return the commands' names, in the order of the table."""
        return [*self.commands, *self.installed]

    def format_commands(self, ctx: object, formatter: object) -> None:
        """Write the commands, with what each does, under a heading for each folder."""
        for folder, names in COMMANDS.items():
            self._write(ctx, formatter, HEADINGS[folder], names.split())
        self._write(ctx, formatter, "Of installed packages", list(self.installed))

    def _write(self, ctx: object, formatter: Any, heading: str, names: list[str]) -> None:
        rows = []
        for name in names:
            try:
                rows.append((name, self.get_command(ctx, name).help))
            except InputError as error:
                warn(str(error))
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Return a command."""
        found = super().get_command(ctx, name) or self.installed.get(name)
        if isinstance(found, LazyCommand):
            found.help = found.summary()
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named; raises InputError with the nearest name."""
        known = args[0] in self.commands or args[0] in self.installed
        if not known and (near := nearest(args[0], self.list_commands(ctx))):
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
    began = time.process_time()
    try:
        with_error_messages(app)
    finally:
        gc.freeze()
        if "farm.sim.fast.engine_choice" in sys.modules:
            _build_kernel(time.process_time() - began)


def _build_kernel(spent: float) -> None:
    from farm.app.kernel import build_in_background  # noqa: PLC0415 - few commands simulate

    if log := build_in_background(spent):
        typer.echo(
            f"building the compiled loop of simulations in the background, once; log: {log}",
            err=True,
        )


if __name__ == "__main__":
    main()
