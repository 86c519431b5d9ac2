"""Output on a terminal: safe text, tables that fit, and unfolded lines in pipes.

Names come from the users who submit jobs. Control characters (escape sequences, and marks that
reverse the text direction) are made visible instead of being sent; JSON output has every byte.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: maximum number of characters shown of a text, and of a message
MAX_TEXT, MAX_MESSAGE = 200, 4000
#: width of a table in a file or a pipe, where nothing needs to be folded
WIDE = 1000
#: minimum width of a folded column, below which other columns are dropped
FOLDED = 24

COLOURS = {
    "succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan",
    "building": "green", "cleaning": "cyan", "draining": "yellow", "lost": "red",
    "booting": "magenta",
}  # fmt: skip


class FarmConsole(Console):
    """A console that prints text unchanged: no markup, no emoji names, no guessed colours."""

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        # rich would fold output to a pipe as on a terminal of 80 columns
        piped = stream is None or not stream.isatty()
        width = shutil.get_terminal_size((WIDE, 40)).columns if piped else None
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)

    def on_broken_pipe(self) -> NoReturn:
        """Let the command line handle it, as for all other output (farm.cli.main:Commands)."""
        raise BrokenPipeError


def plain(text: object, most: int = MAX_TEXT) -> str:
    """Return the text without effects on a terminal, truncated if it is very long."""
    shown = str(text)
    cut = len(shown) > most
    if cut:
        shown = shown[: most - 1]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else _spelled(c) for c in shown)
    return f"{shown}…" if cut else shown


def message(text: object) -> str:
    """Return a message of several lines, each made plain."""
    lines = str(text)[:MAX_MESSAGE].split("\n")
    return "\n".join(plain(line, MAX_MESSAGE) for line in lines)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def coloured(state: str) -> Text:
    """Return a state of a job or builder in its colour."""
    return Text(plain(state), COLOURS.get(state, ""))


def counted(states: Mapping[str, int]) -> Text:
    """Return the number of each state."""
    return Text(" · ").join(
        Text.assemble(f"{count:,} ", coloured(state)) for state, count in states.items() if count
    )


def many(count: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


class Column(NamedTuple):
    """A column of a listing."""

    name: str
    right: bool = False
    #: may be folded over several lines
    folds: bool = False


Cell = str | Text


def listing(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int, first_to_go: str = ""
) -> Table:
    """Return a table; columns that do not fit are dropped, in the order of ``first_to_go``.

    Its texts are made plain. The first column is never dropped, and is folded rather than cut.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    room = {
        column.name: max(
            [cell_len(column.name), *(_claims(column, row[place]) for row in cells)], default=0
        )
        for place, column in enumerate(columns)
    }
    gone: set[str] = set()
    for name in first_to_go.split():
        if sum(wide + 2 for other, wide in room.items() if other not in gone) <= width:
            break
        gone.add(name)
    kept = [place for place, column in enumerate(columns) if column.name not in gone]
    table = Table(box=None, header_style="bold")
    for place in kept:
        column = columns[place]
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=not column.folds and place > 0,
            overflow="fold",
        )
    for row in cells:
        table.add_row(*(row[place] for place in kept))
    return table


def _cell(value: Cell) -> Text:
    return value if isinstance(value, Text) else Text(plain(value))


def _claims(column: Column, cell: Text) -> int:
    return min(cell.cell_len, FOLDED) if column.folds else cell.cell_len


def story(rows: Iterable[tuple[str, object]]) -> Table:
    """Return a table of names and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), value if isinstance(value, Text) else Text(plain(value)))
    return table


def natural_order(name: str) -> tuple[str, int, str]:
    """Return the key that sorts builder-9 before builder-10."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), "") if number.isdecimal() and len(number) < 19 else (name, 0, "")
