"""Output of commands: JSON, remarks, tables, and progress."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from farm.terminal.console import FarmConsole
from farm.units import format_time

#: real seconds between lines of progress without a terminal
LINE_EVERY = 2.5


def print_json(*values: object, pretty: bool = False) -> None:
    """Print each value as JSON, on one line or indented."""
    for value in values:
        text = msgspec.json.encode(value)
        typer.echo((msgspec.json.format(text, indent=2) if pretty else text).decode())


def note(what: RenderableType, *, err: bool = False) -> None:
    """Print a remark unfolded, or a table, folded if need be."""
    FarmConsole(stderr=err).print(what, soft_wrap=isinstance(what, str | Text))


def log_to_stderr() -> None:
    """Let a service log to standard error, with instants."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )


@contextmanager
def progress(
    what: str, *columns: ProgressColumn, silent: bool = False
) -> Iterator[Callable[..., None] | None]:
    """Show progress on standard error; yields a function of ``description, completed, total``.

    Yields None if it is to be silent. Without a terminal, a line is written occasionally.
    """
    if silent:
        yield None
        return
    if not sys.stderr.isatty():
        yield _Lines(what)
        return
    columns = columns or (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield partial(shown.update, shown.add_task(what))


@contextmanager
def runs_progress(*, silent: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show how many runs are done, their total, and the remaining time."""
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress("runs", *columns, silent=silent) as update:

        def show(done: int, of: int) -> None:
            if update is not None:
                update(completed=done, total=of)

        yield show


class _Lines:
    """Writes a line of progress every few seconds, with the remaining time if known."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = self._told_at = time.monotonic()
        self._first: int | None = None
        self._advanced = 0

    def __call__(
        self, description: str = "", completed: int = 0, total: int = 0, advance: int = 0
    ) -> None:
        now = time.monotonic()
        self._advanced += advance
        completed = completed or self._advanced
        self._first = completed if self._first is None else self._first
        if now - self._told_at < LINE_EVERY:
            return
        self._told_at = now
        made = completed - self._first
        if not description:
            description = f"{completed} of {total} {self._what}"
        if made and completed < total:
            left = round((now - self._began) / made * (total - completed))
            description += f", about {format_time(left)} left"
        sys.stderr.write(f"{description}\n")
