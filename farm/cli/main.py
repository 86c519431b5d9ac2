"""The command ``farm``: which commands there are. Each is imported when it is used, and not before.

Exit codes: 0 done; 1 the run ended but something failed; 2 bad input, one clear message;
130 interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import farm
from farm.terminal.error_messages import with_error_messages

#: by panel of the help: each command with its help in one line; see ``LazyCommand`` for the third
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Runs": (
        ("run", "Run a scenario on a live farm: real server, real Celery builders, real time."),
        ("simulate", "Run a scenario in virtual time and print its summary."),
        (
            "sweep",
            "Play a scenario with many settings, each with the same seeds, and compare them.",
        ),
        (
            "compare",
            "Compare runs with the first: what differs, and whether that is noise, and relevant.",
        ),
        ("report", "Write one page with the figures of a run, of several, or of a sweep."),
        (
            "audit",
            "Check a recorded run: its event log makes sense, and replays the same.",
        ),
        ("init", "Write a commented scenario that runs, with a pool for each platform of a trace."),
        ("examples", "List the packaged examples, which every command takes by name."),
    ),
    "A farm that stays up": (
        ("up", "Start a farm that stays up: server, scheduler, provisioner, builder hosts."),
        ("down", "End the farm that farm up started; running jobs end first."),
        ("status", "Show a live farm: queues, builders by state, pools, throughput."),
        ("submit", "Submit work to a live farm."),
        ("jobs", "List the jobs of a live farm."),
        ("job", "Tell a job's story: where it is, why it waits, what became of it."),
        ("cancel", "Cancel jobs of a live farm."),
        (
            "priority",
            "Give waiting jobs of a live farm another level, score or fair-share priority.",
        ),
        ("retry", "Run ended jobs again, each as a new job."),
        (
            "builders",
            "List builders: those that are there, that boot, and that were lost recently.",
        ),
        ("drain", "Let builders finish what they run and take no more, until undrained."),
        ("undrain", "Let drained and failed builders take jobs again.", "drain"),
        ("pools", "List pools: what they need, what is wanted, what is there, and why."),
        (
            "invocations",
            "List invocations: who waits, who executes, where builders idle.",
        ),
        (
            "explain",
            "Explain a dispatch: who competed, whose turn it was, which builders were free.",
        ),
        (
            "dead-letters",
            "List the messages to the scheduler that were refused.",
            "dead_letters",
        ),
        ("snapshot", "Write a live farm as it stands, for farm estimate and farm whatif."),
        ("scheduler", "Run the scheduler of a farm that stays up, until SIGTERM or Ctrl-C."),
        (
            "acl",
            "Print, or make, the users of a farm's server: who may do what.",
        ),
        ("join", "Print the command with which another machine plays builders of this farm."),
        ("load", "Hand in a scenario's jobs at their farm times, until they end or Ctrl-C."),
    ),
    "Tools": (
        ("estimate", "Estimate when waiting jobs will be dispatched."),
        (
            "runtime-estimate",
            "Tell how long a job will run, by which rung of the estimator, from how many samples.",
            "runtime_estimate",
        ),
        ("whatif", "Simulate a farm on from where it stands, with and without a change."),
        ("plan", "Find the smallest pools with which a scenario meets an objective."),
        ("score", "Compare a run's dispatch estimates with the dispatches that followed."),
        (
            "study",
            "Play a published experiment again and write its figures and tables into one page.",
        ),
        ("risk", "Print the slowdown to expect on a builder that is filled at random."),
        ("calibrate", "Measure this machine's slowdown under co-scheduled load, for scenarios."),
        ("import", "Read a trace and write it as csv, which scenarios take.", "import_trace"),
        ("export", "Write a finished run as csv, swf, batsim, taskcluster or openmetrics."),
        ("chaos", "Start a farm of its own, hurt it by a seeded plan, and audit every job."),
        ("schema", "Print the JSON Schema of a scenario file, for editors and checkers."),
    ),
}


class LazyCommand(TyperCommand):
    """A command that is imported when it is used: the function of its name in farm/cli/MODULE.py.

    ``module`` is its name unless the table says otherwise; ``import`` cannot name a function, so
    that one is named as its module.
    """

    def __init__(self, panel: str, name: str, help_line: str, module: str = "") -> None:
        super().__init__(name, help=help_line, rich_help_panel=panel)
        self._module = module or name

    def load(self) -> Any:
        """Return the command itself."""
        module = import_module(f"farm.cli.{self._module}")
        function = getattr(module, self.name or "", None) or getattr(module, self._module)
        only = typer.Typer(add_completion=False, rich_markup_mode="rich")
        only.command(name=self.name)(function)
        return typer.main.get_command(only)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return a context of the command itself: that is what runs, and shows its help."""
        return self.load().make_context(*args, **extra)


class Commands(TyperGroup):
    """The commands; a reader of their output that goes away is no mistake of theirs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, rows in COMMANDS.items():
            self.commands.update({row[0]: LazyCommand(panel, *row) for row in rows})

    def list_commands(self, _: Any) -> list[str]:
        """Return the commands' names, in the order of the table."""
        return list(self.commands)

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
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"farm {farm.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """An emulated build farm that really runs, and the same farm in virtual time."""


def main() -> None:
    """Run the command line ``farm``."""
    with_error_messages(app)


if __name__ == "__main__":
    main()
