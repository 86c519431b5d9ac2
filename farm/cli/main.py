"""The command ``farm`` and its commands, each of which is imported on first use.

Exit codes: 0 done; 1 the run ended but something failed; 2 bad input, or output that cannot
be written, one clear message; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import farm
from farm.cli.old_names import ANSWERS, RENAMED, as_now_called
from farm.core.errors import InputError, nearest
from farm.plugins.entry_points import COMMANDS as COMMAND_GROUP
from farm.plugins.entry_points import entries
from farm.terminal.command_help import summary_in, with_docstring
from farm.terminal.error_messages import (
    print_interrupted,
    with_error_messages,
    with_options_named,
)
from farm.terminal.option_values import prepare_parameters, take_plain_values
from farm.terminal.options import DEFAULT_DIR, SERVER, dir_option, server_option, with_short_forms
from farm.terminal.settings import (
    is_completing,
    use_no_plugins_of_pydantic,
    use_one_thread_for_matrices,
)

#: options with which nothing is said beside the result
QUIET = frozenset({"-q", "--quiet", "--json"})
#: seconds of processor time from which on a command would have gained from the compiled loop
WORTH_COMPILING = 2.0


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
                return summary_in(path.read_text("utf-8"), self._function)
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
        command = take_plain_values(typer.main.get_command(only))
        if is_completing():
            from farm.cli.completion import with_completion  # noqa: PLC0415 - for shells only

            with_completion(command)
        return with_options_named(with_docstring(command, found.__doc__))

    def make_context(self, *args: object, **extra: object) -> Any:
        """Return a context of the imported command, which runs and shows its help."""
        return self.load().make_context(*args, **extra)


def _described(group: Any, name: str | None) -> Any:
    """Return an app's command, those of a group with the help in their docstrings."""
    group.name = name
    for command in getattr(group, "commands", {}).values():
        take_plain_values(command)
        if docstring := getattr(command.callback, "__doc__", None):
            with_docstring(command, docstring)
            command.short_help = command.help.partition("\n")[0]
    return group


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
    """Return the commands that packages beside the farm add, the farm's own packages first.

    One whose name is taken is left out, with a warning.
    """
    found: dict[str, InstalledCommand] = {}
    for entry in entries(COMMAND_GROUP):
        if entry.name in taken or entry.name in found:
            warn(f"the command {entry.name} of {entry.value} is left out: the name is taken")
        else:
            found[entry.name] = InstalledCommand(entry.name, entry.module, entry.attr)
    return found


def warn(text: str) -> None:
    """Print a warning on standard error, on one line."""
    typer.echo(f"warning: {' '.join(text.split())}", err=True)


#: characters of a help's line, on a terminal that has them
WIDEST = 200
#: the commands of each folder
FOLDERS = {
    "scenarios": "init examples calibrate",
    "runs": "run simulate sweep compare report audit export score",
    "live_farm": "up down status builders drain pools set scheduler acl join",
    "jobs": "submit jobs job cancel retry dead-letters",
    "forecasts": "estimate whatif plan",
}
#: the commands by their heading in the help; some come from the packages beside the farm
COMMANDS = {
    "Try a farm": "run simulate init examples fetch import doctor twin sweep compare report plan",
    "A farm that stays up": "up down status submit jobs job cancel retry pools builders drain set "
    "whatif",
}
#: those of ``farm admin``
ADMIN = {
    "Services": "scheduler acl join dead-letters",
    "Runs and records": "audit export score estimate trace",
    "Studies": "calibrate study chaos",
}
#: what the commands are called elsewhere
OTHERS_SAY = {"start": "up", "stop": "down", "why": "job --why", "list": "jobs", "ls": "jobs"}
#: names that no function can have
FUNCTIONS = {"set": "set_keys"}


class Commands(TyperGroup):
    """The commands under headings, among those that installed packages add."""

    #: the names under each heading
    table: ClassVar = ADMIN
    #: the heading of commands that are in no table; None: they are not of this group
    others: ClassVar[str | None] = None

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names = _names_of(self.table)
        for folder, known in FOLDERS.items():
            for name in known.split():
                if name in names:
                    function = FUNCTIONS.get(name, name.replace("-", "_"))
                    module = f"farm.cli.{folder}.{function}"
                    self.commands[name] = LazyCommand(name, module, function)

    @cached_property
    def installed(self) -> dict[str, InstalledCommand]:
        """The commands that other packages add; only who asks for these looks for them."""
        theirs = set(_names_of(ADMIN)) - set(_names_of(FOLDERS))
        found = installed_commands({*self.commands, *RENAMED, *ANSWERS} - theirs)
        return {name: one for name, one in found.items() if (name in theirs) != bool(self.others)}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take no words for a question after all of them."""
        prepare_parameters(self, ctx)
        return super().parse_args(ctx, args or ["--help"])

    def list_commands(self, _: object) -> list[str]:
        """Return the commands' names, in the order of the table."""
        known = {**self.commands, **self.installed}
        ordered = [name for name in _names_of(self.table) if name in known]
        return [*dict.fromkeys((*ordered, *known))]

    def format_commands(self, ctx: object, formatter: object) -> None:
        """Write the commands, with what each does, under a heading for each kind."""
        for heading, names in self.table.items():
            self._write(ctx, formatter, heading, names.split())
        if self.others:
            listed = _names_of(self.table)
            others = [name for name in self.installed if name not in listed]
            self._write(ctx, formatter, self.others, others)

    def _write(self, ctx: object, formatter: Any, heading: str, names: list[str]) -> None:
        rows = []
        for name in names:
            try:
                if found := self.get_command(ctx, name):
                    rows.append((name, found.help))
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
        near = OTHERS_SAY.get(args[0]) if self.others else None
        if not known and (near := near or nearest(args[0], self.list_commands(ctx))):
            raise InputError(f"found no command {args[0]!r}; did you mean {near}?")
        return super().resolve_command(ctx, args)


def _names_of(table: Mapping[str, str]) -> list[str]:
    return [name for names in table.values() for name in names.split()]


class FarmCommands(Commands):
    """All commands, also by their old names; a closed output pipe is not an error."""

    table: ClassVar = {**COMMANDS, "Administration": "admin"}
    others: ClassVar = "Of installed packages"

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        about = "Services of a farm, its users, checks and exports of runs, and studies."
        self.commands["admin"] = Commands(name="admin", help=about, rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is named, by its name of today or of the last release."""
        return super().resolve_command(ctx, as_now_called(args))

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Take the options, of which ``--help`` prints."""
        with _closed_pipe():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> object:
        """Run one of them."""
        with _closed_pipe():
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as stop:  # here, before Typer takes its words
                print_interrupted(stop)
                raise


@contextmanager
def _closed_pipe() -> Iterator[None]:
    """End with exit code 0 if the reader of the output has gone, as in ``farm … | head``."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:  # here, before Typer makes it exit code 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def commands_in(group: Any, words: str = "farm") -> Iterator[tuple[str, Any]]:
    """Yield the words and the loaded command of each that is in view, in a group's own order."""
    for name in group.list_commands(None):
        one = group.get_command(None, name)
        if isinstance(one, Commands):
            yield from commands_in(one, f"{words} {name}")
        elif not one.hidden:
            yield f"{words} {name}", one.load()


app = typer.Typer(
    name="farm",
    cls=FarmCommands,
    rich_markup_mode=None,
    epilog="""\b
Examples:
    farm run quickstart                             an afternoon of jobs, in half a minute
    farm simulate quickstart --policy sjf           the same in virtual time, another policy
    farm init jobs.csv                              a scenario for a table of your own jobs""",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farm {farm.__version__}")
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    redis: Annotated[str | None, server_option(SERVER)] = None,
    folder: Annotated[Path, dir_option(hidden=False)] = DEFAULT_DIR,
) -> None:
    """An emulated build farm, live and in virtual time.

    farm help COMMAND says all of one. Which live farm a command is about: --redis or --dir, before
    or after its name, or the environment.
    """


def main() -> None:
    """Run the command line ``farm``.

    Neither the imports nor what remains at the end is garbage: collecting it would take longer
    than many commands.
    """
    gc.disable()
    use_one_thread_for_matrices()  # before NumPy is imported
    use_no_plugins_of_pydantic()
    began = time.process_time()
    try:
        with_error_messages(app)
    finally:
        gc.freeze()
        if "farm.sim.fast.kernel.native" in sys.modules:
            tell_of_compiled_loop(time.process_time() - began)


def tell_of_compiled_loop(spent: float) -> None:
    """Say that the loop of simulations was compiled, or that a long command missed it."""
    from farm.sim.fast.kernel import native  # noqa: PLC0415 - few commands simulate

    if QUIET & {*sys.argv} or not native.loading.cache_info().currsize:
        return
    loading = native.loading()
    if loading.build_time and loading.library:
        text = f"compiled the loop of simulations in {loading.build_time:.1f}s: its sources are new"
        typer.echo(text, err=True)
    if loading.library is None and spent >= WORTH_COMPILING:
        text = f"played without the compiled loop, which is ten times as fast: {loading.reason}"
        typer.echo(text, err=True)


if __name__ == "__main__":
    main()
