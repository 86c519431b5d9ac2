"""Output of commands: JSON, remarks, tables, and progress."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

import msgspec
import typer

from farm.terminal.plain_tables import NotPlainError, plain_text_of
from farm.terminal.plain_text import is_plain, width_of_pipes, write_messages
from farm.units import format_time

if TYPE_CHECKING:  # rich takes 20 ms to import, and JSON needs none of it
    from rich.console import RenderableType

    from farm.terminal.console import FarmConsole

#: real seconds to the first line of progress without a terminal; each pause is longer than the last
LINE_EVERY = 2.5
#: by this factor, so that work of an hour does not fill a log
LINE_PAUSE_GROWTH = 1.5
#: up to this many seconds
MAX_LINE_PAUSE = 60.0
#: share of the work from which the remaining time is told: the first steps may be unlike the others
MIN_SHARE_FOR_REST = 0.1


def print_json(*values: object, pretty: bool = False) -> None:
    """Print each value as JSON, on one line or indented."""
    for value in values:
        text = msgspec.json.encode(value)
        typer.echo((msgspec.json.format(text, indent=2) if pretty else text).decode())


def _console(*, err: bool) -> FarmConsole:
    from farm.terminal.console import FarmConsole  # noqa: PLC0415 - rich, for what is printed

    return FarmConsole(stderr=err)


def note(*what: RenderableType, err: bool = False) -> None:
    """Print remarks unfolded, their texts made plain, and tables, folded if need be."""
    stream = sys.stderr if err else sys.stdout
    for one in what:
        if not is_plain(stream):
            _console(err=err).note(one)
        elif isinstance(one, str):
            write_messages(stream, one)
        else:
            _write_plainly(stream, one, err=err)


def _write_plainly(stream: TextIO, what: RenderableType, *, err: bool) -> None:
    """Write to a plain stream what need not be laid out by rich."""
    try:
        text = plain_text_of(what, width_of_pipes())
    except NotPlainError:
        _console(err=err).note(what)
    else:
        stream.write(text)
        stream.flush()


def remark(*lines: str, quiet: bool = False) -> None:
    """Print lines on standard error, apart from the output; ``quiet``: none."""
    if lines and not quiet:
        note(*lines, err=True)


def warn(*texts: str) -> None:
    """Print warnings on standard error; nothing for an empty one."""
    for text in filter(None, texts):
        _console(err=True).print(f"warning: {text}")


def log_to_stderr() -> None:
    """Let a service log to standard error, with instants."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )


@contextmanager
def progress(
    what: str, *, counted: bool = False, silent: bool = False
) -> Iterator[Callable[..., None]]:
    """Show on standard error that work is under way, until the block ends.

    Yields a function of ``description, completed, total`` by which the work may tell more, which
    does nothing if all is to be silent. On a terminal it is a bar if what is done is ``counted``;
    without one, a line is written every few seconds.
    """
    if silent:
        yield lambda **_: None
    elif sys.stderr.isatty():
        from farm.terminal.progress_bar import shown  # noqa: PLC0415 - much of rich, for terminals

        with shown(what, counted=counted, rest_from=MIN_SHARE_FOR_REST) as update:
            yield update
    else:
        with _ProgressLines(what) as lines:
            yield lines.take


def show_share(update: Callable[..., None], what: str, share: float) -> None:
    """Tell a progress how much (0 to 1) of something is done; 0: that it has begun."""
    description = f"{what}: {share:.0%}" if share else what
    update(description=description, completed=round(1000 * share), total=1000)


@contextmanager
def shared_progress(what: str, *, silent: bool = False) -> Iterator[Callable[[float], None]]:
    """Show how much (0 to 1) of something is done, and the remaining time."""
    with progress(what, silent=silent) as update:
        show_share(update, what, 0.0)
        yield partial(show_share, update, what)


reading_progress = partial(shared_progress, "reading")


@contextmanager
def counted_progress(what: str, *, silent: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show how many are done (runs), their total, and the remaining time."""
    with progress(what, counted=True, silent=silent) as update:
        yield lambda done, of: update(completed=done, total=of)


class _ProgressLines:
    """Writes how far the work is every few seconds, with the remaining time if known."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._description = ""
        self._completed = self._total = 0
        self._first: int | None = None
        #: real seconds until the last of those completed was
        self._made_after = 0.0
        self._over = threading.Event()
        self._writing = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._writing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._writing.join()

    def take(
        self, description: str = "", completed: int = 0, total: int = 0, advance: int = 0
    ) -> None:
        """Note how far the work is; where less is done than before, other work has begun."""
        self._description = description
        if 0 < completed < self._completed:
            self._began, self._completed, self._first = time.monotonic(), 0, None
        if (now := completed or self._completed + advance) != self._completed:
            self._completed, self._made_after = now, time.monotonic() - self._began
        self._total = total or self._total
        self._first = self._completed if self._first is None else self._first

    def _write(self) -> None:
        pause = LINE_EVERY
        while not self._over.wait(pause):
            sys.stderr.write(f"{self._line(time.monotonic() - self._began)}\n")
            pause = min(pause * LINE_PAUSE_GROWTH, max(MAX_LINE_PAUSE, LINE_EVERY))

    def _line(self, spent: float) -> str:
        first = self._first or 0
        made = self._completed - first
        left = 0.0
        if made and made >= MIN_SHARE_FOR_REST * (self._total - first):
            time_of_each = self._made_after / made
            left = time_of_each * (self._total - self._completed) - (spent - self._made_after)
        counted = f"{self._completed} of {self._total} {self._what}" if self._total else self._what
        text = self._description or counted
        if left > 0:
            return f"{text}, about {format_time(round(left))} left"
        return f"{text}, {format_time(round(spent))} so far"


def this_command() -> str:
    """Return the command as the user typed it, such as ``.venv/bin/farm``."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "farm" and shutil.which("farm") is None else "farm"
