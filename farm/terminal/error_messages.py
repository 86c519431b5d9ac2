"""Error messages of all command lines: one message per error."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any

import typer

from farm.core.errors import FarmError, InputError

#: a command line that is not understood; Typer does not export the class
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def with_error_messages(app: Callable[..., int | None]) -> None:
    """Run a command line; a user's error gives one message and exit code 2, no traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters that its encoding lacks
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        of: Any = error
        where = "" if of.ctx is None else f" ({of.ctx.command_path} --help)"
        text = of.format_message().replace("Value error, ", "").rstrip(".")
        _print(f"{text}{where}")
        sys.exit(InputError.exit_code)
    except FarmError as error:
        _print(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        # an unwritable folder, a full disk; code that expects it gives a better message
        where = "" if error.filename is None else f"{error.filename}: "
        _print(f"{where}{error.strerror or error}")
        sys.exit(InputError.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _print(text: str) -> None:
    from farm.terminal.console import print_error  # noqa: PLC0415 - rich, for those that failed

    with contextlib.suppress(OSError):  # standard error may be on the full disk
        print_error(text)
