"""The command ``farm``: one module a command family, and one place where mistakes are told.

Exit codes: 0 done; 1 the run ended but something failed; 2 bad input, one clear message;
130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from farm.cli import (
    builders,
    calibrate,
    cancel,
    compare,
    estimate,
    explain,
    export,
    import_trace,
    jobs,
    load,
    plan,
    pools,
    risk,
    run,
    scheduler,
    schema,
    score,
    simulate,
    snapshot,
    status,
    submit,
    up,
    whatif,
)
from farm.core.errors import FarmError
from farm.terminal.console import FarmConsole, message


class Commands(TyperGroup):
    """The commands; a reader of their output that goes away is no mistake of theirs."""

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
    help="An emulated build farm that really runs, and the same farm in virtual time.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_RUNS, _TOOLS, _FARM = "Runs", "Tools", "A farm that stays up"

app.command(rich_help_panel=_RUNS)(run.run)
app.command(rich_help_panel=_RUNS)(simulate.simulate)
app.command(rich_help_panel=_RUNS)(compare.compare)
app.command(rich_help_panel=_FARM)(up.up)
app.command(rich_help_panel=_FARM)(up.down)
app.command(rich_help_panel=_FARM)(status.status)
app.command(rich_help_panel=_FARM)(submit.submit)
app.command(rich_help_panel=_FARM)(jobs.jobs)
app.command(rich_help_panel=_FARM)(jobs.job)
app.command(rich_help_panel=_FARM)(cancel.cancel)
app.command(rich_help_panel=_FARM)(cancel.retry)
app.command(rich_help_panel=_FARM)(builders.builders)
app.command(rich_help_panel=_FARM)(builders.drain)
app.command(rich_help_panel=_FARM)(builders.undrain)
app.command(rich_help_panel=_FARM)(pools.pools)
app.command(rich_help_panel=_FARM)(explain.explain)
app.command(rich_help_panel=_FARM)(snapshot.snapshot)
app.command(rich_help_panel=_TOOLS)(estimate.estimate)
app.command(rich_help_panel=_TOOLS)(whatif.whatif)
app.command(rich_help_panel=_TOOLS)(plan.plan)
app.command(rich_help_panel=_TOOLS)(score.score)
app.command(rich_help_panel=_TOOLS)(risk.risk)
app.command(rich_help_panel=_TOOLS)(calibrate.calibrate)
app.command(name="import", rich_help_panel=_TOOLS)(import_trace.import_trace)
app.command(rich_help_panel=_TOOLS)(export.export)
app.command(rich_help_panel=_TOOLS)(schema.schema)
app.command(rich_help_panel=_FARM)(scheduler.scheduler)
app.command(rich_help_panel=_FARM)(load.load)


def main() -> None:
    """Run the command line ``farm``."""
    told(app)


def told(command: Callable[[], object]) -> None:
    """Run a command line; a user's mistake gets one message and exit code 2, no traceback."""
    try:
        command()
    except FarmError as error:
        _tell(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        # a folder that may not be written to, a full disk; who foresees it says more
        where = "" if error.filename is None else f"{error.filename}: "
        _tell(f"{where}{error.strerror or error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _tell(what: str) -> None:
    words = Text.assemble(("error: ", "bold red"), message(what))
    FarmConsole(stderr=True).print(words, soft_wrap=True)


if __name__ == "__main__":
    main()
