"""Tables and texts as they are written to a file or a pipe that is wide enough for them.

Nothing is folded, left out or coloured there, so that nothing has to be measured on a terminal:
rich, which does that, takes longer to import than a small scenario to play.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from farm.terminal.cells import GAP, Cell, ListingColumn, Styled, TableContent
from farm.terminal.plain_text import MAX_MESSAGE, plain
from farm.terminal.tables import Listing, Parts

#: characters below this one are as wide as a column of a terminal, if they are printable
FIRST_OF_OTHER_WIDTH = "\u0300"


class NotPlainError(Exception):
    """What only rich can lay out: too wide, in letters of other widths, or made for it."""


def plain_text_of(what: object, width: int) -> str:
    """Return tables and texts as lines; raises NotPlainError for what rich has to lay out.

    A text alone is not folded, however long it is.
    """
    if isinstance(what, Styled):
        width = max(width, len(what.plain))
    return "".join(f"{line}\n" for line in _lines_of(what, width))


def _lines_of(what: object, width: int) -> list[str]:
    if isinstance(what, Styled):
        return [_checked(what.plain, width)]
    if isinstance(what, Parts):
        return [line for part in what for line in _lines_of(part, width)]
    if isinstance(what, Listing):
        return _lines_of_table(what, width)
    raise NotPlainError


def _lines_of_table(table: TableContent, width: int) -> list[str]:
    rows = [[_cell(*pair) for pair in zip(row, table.columns, strict=True)] for row in table.rows]
    if any(table.names):
        rows.insert(0, table.names)
    if not rows or not table.columns:
        raise NotPlainError
    lines = [plain(table.title, MAX_MESSAGE)] if table.title else []
    lines += _aligned(rows, table.columns, width)
    explanations = [about for name, about in table.about.items() if name in table.names]
    remarks = "; ".join(filter(None, [table.caption, *explanations]))
    lines += [plain(remark, MAX_MESSAGE) for remark in remarks.splitlines()]
    return [_checked(line, width) for line in lines]


def _cell(value: Cell, column: ListingColumn) -> str:
    if isinstance(value, Styled):
        return value.plain
    if isinstance(value, str):
        return plain(value, MAX_MESSAGE) if column.folds else plain(value)
    raise NotPlainError


def _aligned(
    rows: Iterable[Sequence[str]], columns: Sequence[ListingColumn], width: int
) -> list[str]:
    """Return a line for each row, whose cells stand below each other."""
    rows = [*rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) > width:
        raise NotPlainError
    lines = []
    for row in rows:
        cells = [
            cell.rstrip().rjust(wide) if column.right else cell.ljust(wide)
            for cell, wide, column in zip(row, widths, columns, strict=True)
        ]
        lines.append((" " * GAP).join(cells).rstrip())
    return lines


def _checked(line: str, width: int) -> str:
    """Return the line; raises NotPlainError for one that is laid out in another way."""
    if len(line) > width or not line.isprintable() or max(line, default="") >= FIRST_OF_OTHER_WIDTH:
        raise NotPlainError
    return line
