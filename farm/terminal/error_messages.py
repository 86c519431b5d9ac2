"""Error messages of all command lines: one message per error."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import typer

from farm.core.errors import FarmError, InputError, allowed_by
from farm.terminal.plain_text import is_plain, write_messages

_PLAN = ": an objective of a scenario is one of farm plan --slo OBJECTIVE [--vary KEY=V1,V2]"
#: by command and option that it has not: where that is
ELSEWHERE = {
    ("sweep", "--objective"): _PLAN,
    ("sweep", "--slo"): _PLAN,
    ("sweep", "--runs"): "; it is --replications N here",
    ("doctor", "--slo"): "; it is --objective TIME here, and --slo OBJECTIVE of farm plan",
    ("plan", "--objective"): "; it is --slo OBJECTIVE here, and --objective TIME of farm doctor",
}
#: exit code after Ctrl-C
INTERRUPTED = 130
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
        name = "" if of.ctx is None else of.ctx.command_path.rpartition(" ")[2]
        instead = ELSEWHERE.get((name, getattr(of, "option_name", "")), "")
        _print(f"{_in_our_words(of)}{instead}{where}")
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
        sys.exit(INTERRUPTED)


def with_options_named(command: Any) -> Any:
    """Return a command whose errors name its options as they are typed: ``--out``, not ``out``."""
    typed = {one.name: one.opts[0] for one in command.params if one.param_type_name == "option"}
    inner = command.callback

    @wraps(inner)
    def run(**values: Any) -> Any:
        try:
            return inner(**values)
        except InputError as error:
            name, _, rest = str(error).partition(": ")
            if type(error) is not InputError or name not in typed:
                raise
            raise InputError(f"{typed[name]}: {rest}") from error

    command.callback = run
    return command


@contextlib.contextmanager
def on_interrupt(words: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C within the block say what is kept, and how to go on (``print_interrupted``)."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(str(stop) or words()) from None


def print_interrupted(stop: KeyboardInterrupt) -> None:
    """Print on standard error that the command was interrupted, and what it says of that."""
    _print("interrupted" + (f": {stop}" if str(stop) else ""), error=False)


def _in_our_words(error: Any) -> str:
    """Return a message of Typer's, which has sentences of pydantic in it."""
    text: str = error.format_message().replace("Value error, ", "").rstrip(".")
    text = " ".join(text.replace(". Choose from:", "; allowed:").split())
    text = re.sub(r"('[^']*') is not one of ", r"found \1; allowed: ", text)
    problems: list[Any] = getattr(error.__cause__, "errors", list)()
    before, is_pydantics, _ = text.partition("Input should be ")
    if not problems or not is_pydantics:
        return text
    return f"{before}found {problems[0]['input']!r:.60}; allowed: {allowed_by(problems[0])}"


def _print(text: str, *, error: bool = True) -> None:
    mark = "error: " if error else ""
    with contextlib.suppress(OSError):  # standard error may be on the full disk
        if not is_plain(sys.stderr):
            # an error may be that there are no file descriptors left: nothing can be imported then
            with contextlib.suppress(ImportError, OSError):
                from farm.terminal.console import print_message  # noqa: PLC0415 - rich, for colours

                print_message(mark, text)
                return
        if sys.stderr is not None:
            write_messages(sys.stderr, text, mark=mark)
