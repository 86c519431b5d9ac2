"""Cells of CSV files: fast columns, and texts for people who open them in a spreadsheet.

As OWASP advises (CSV Injection), such a text is written behind an apostrophe. So are those that
begin with apostrophes before it: each text has one form, and is read back as it was. Numbers
stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from operator import itemgetter

#: how a formula begins, if a spreadsheet removes blanks before it too
FIRST = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def harmless(value: object) -> object:
    """Return a cell that is no formula; what is no text is returned as it is."""
    if isinstance(value, str) and value.lstrip("'").startswith(FIRST):
        return f"'{value}"
    return value


def text_cells(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as they are written between commas: harmless, and quoted where they must be.

    Most texts need neither; all of them together are searched for what would need it.
    """
    text = "\n".join(texts)
    plain = text.count("\n") == len(texts) - 1 and not any(mark in text for mark in _QUOTED_FOR)
    if plain and _TO_ESCAPE.isdisjoint(map(_first_letter, texts)):
        return texts
    return list(map(_text_cell, texts))


def _text_cell(text: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow((harmless(text), ""))
    return line.getvalue().removesuffix(",\n")


_first_letter = itemgetter(slice(0, 1))
#: marks for which csv puts a cell in quotes, beside new lines
_QUOTED_FOR = ('"', ",", "\r")
#: how a text begins that may have to be written behind an apostrophe
_TO_ESCAPE = frozenset(FIRST) | {"'"}


def as_given(text: str) -> str:
    """Return the text of which ``harmless`` made this one."""
    return text[1:] if text[:1] == "'" and text.lstrip("'").startswith(FIRST) else text


#: characters of a table that are cut into cells at once
BLOCK = 1 << 17
#: what stands for a cell in quotes, and for a quote in it, while the others are cut
_QUOTED, _QUOTE = "\0", "\1"


def blocks(text: str, between: str) -> Iterator[list[list[str]]]:
    """Yield the columns of some rows at a time, as ``plain_columns`` does.

    Raises ValueError, or csv.Error, if not all rows have as many cells as the first.
    """
    at, width = 0, 0
    while at < len(text):
        length = BLOCK
        while True:
            end = text.find("\n", at + length) + 1 or len(text)
            some = text[at:end]
            if end == len(text) or not some.count('"') % 2:
                break
            length *= 2  # a cell in quotes continues
        at = end
        if columns := plain_columns(some, between) or _read(some, between):
            if len(columns) != (width := width or len(columns)):
                raise ValueError(f"found {len(columns)} cells; allowed: {width}")
            yield columns


def _read(text: str, between: str) -> list[list[str]]:
    """Return the columns of a table of any form; raises where rows differ in length."""
    # rows that were kept would be looked at by the collector, for longer than all of this
    cells: list[str] = []
    widths: set[int] = set()
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=between, strict=True)
    for row in filter(None, rows):
        cells += row
        widths.add(len(row))
    if len(widths) > 1:
        raise ValueError(f"found rows of {sorted(widths)} cells; allowed: as many in each")
    return [cells[place::width] for width in widths for place in range(width)]


def plain_columns(text: str, between: str) -> list[list[str]] | None:
    """Return the columns of a table with their names; None: some cells are missing, or odd."""
    quoted: list[str] = []
    if '"' in text:
        text, quoted = _without_quoted(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\r" in text or text.startswith("\n") or not text:
        return None
    if "\n\n" in text:
        text = "\n".join(filter(None, text.split("\n")))
    text = text.removesuffix("\n")
    rows = text.count("\n") + 1
    # the first cell of each row but the first one begins with a new line
    cells = text.replace("\n", f"{between}\n").split(between)
    width = len(cells) // rows
    first = "".join(cells[::width]).split("\n")
    if len(first) != rows or width * rows != len(cells):
        return None
    cells[::width] = first
    columns = [cells[place::width] for place in range(width)]
    if not quoted:
        return columns
    place = text[: text.index(_QUOTED)].rpartition("\n")[2].count(between)
    if columns[place].count(_QUOTED) == len(quoted):
        columns[place] = _with(quoted, columns[place])
    elif cells.count(_QUOTED) == len(quoted):
        cells = _with(quoted, cells)
        columns = [cells[place::width] for place in range(width)]
    else:
        return None  # a quote within a cell
    return columns


def _with(quoted: list[str], cells: list[str]) -> list[str]:
    found = iter(quoted)
    return [next(found) if cell == _QUOTED else cell for cell in cells]


def _without_quoted(text: str) -> tuple[str, list[str]]:
    """Return a text with ``_QUOTED`` for each cell in quotes, and those; empty: some are odd."""
    parts = text.replace('""', _QUOTE).split('"')
    outside = _QUOTED.join(parts[::2])
    inside = _QUOTED.join(parts[1::2])
    if _QUOTED in text or _QUOTE in text or _QUOTE in outside or not len(parts) % 2:
        return "", []
    return outside, inside.replace(_QUOTE, '"').split(_QUOTED)
