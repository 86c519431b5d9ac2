"""How commands answer: JSON for machines, tables of numbers and progress for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import typer
from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from farm.terminal.console import FarmConsole


def print_json(*values: object, pretty: bool = False) -> None:
    """Print each value as JSON: a line each, or over several lines."""
    for value in values:
        text = msgspec.json.encode(value)
        typer.echo((msgspec.json.format(text, indent=2) if pretty else text).decode())


def table_of(
    title: str,
    texts: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    caption: str | None = None,
) -> Table:
    """Return a table: its first columns are texts, of which the first may fold, then numbers."""
    table = Table(title=title, caption=caption)
    for place, name in enumerate(texts):
        table.add_column(name, overflow="fold", no_wrap=place > 0)
    for name in numbers:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def note(what: RenderableType, *, err: bool = False) -> None:
    """Print a remark as it is, unfolded; or a table, folded where it has to be."""
    FarmConsole(stderr=err).print(what, soft_wrap=isinstance(what, str | Text))


@contextmanager
def progress(
    what: str, *columns: ProgressColumn, silent: bool = False
) -> Iterator[Callable[..., None] | None]:
    """Show on standard error how far it is; yields what takes ``description=, completed=, total=``.

    None where it is to be silent, or there is no terminal.
    """
    if silent or not sys.stderr.isatty():
        yield None
        return
    columns = columns or (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield partial(shown.update, shown.add_task(what))
