"""The command ``farm``: one module a command family, and one place where mistakes are told.

Exit codes: 0 done; 1 the run ended but something failed; 2 bad input, one clear message;
130 interrupted.
"""

from __future__ import annotations

import os
import sys

import typer
from rich.console import Console
from rich.text import Text

from farm.cli import compare, estimate, risk, run, scenarios, simulate, traces
from farm.core.errors import FarmError

app = typer.Typer(
    name="farm",
    help="An emulated build farm that really runs, and the same farm in virtual time.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_RUNS, _TOOLS = "Runs", "Tools"

app.command(rich_help_panel=_RUNS)(run.run)
app.command(rich_help_panel=_RUNS)(simulate.simulate)
app.command(rich_help_panel=_RUNS)(compare.compare)
app.command(rich_help_panel=_TOOLS)(estimate.estimate)
app.command(rich_help_panel=_TOOLS)(risk.risk)
app.command(name="import", rich_help_panel=_TOOLS)(traces.import_trace)
app.command(rich_help_panel=_TOOLS)(scenarios.schema)


def main() -> None:
    """Run the command line; a user's mistake gets one message and exit code 2, no traceback."""
    try:
        app()
    except FarmError as error:
        message = Text.assemble(("error: ", "bold red"), str(error))
        Console(stderr=True).print(message, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader of our output went away (`farm … | head`): nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
