"""Reads tables of jobs: the text is cut into columns of cells, which become numbers or texts.

What the columns mean is said elsewhere: for the project's own tables in
``farm.records.traces.csv_table``, for those of others in ``foreign_table``, for a run's jobs.csv in
``farm.results.table.jobs_csv``. A regular table is cut column by column, which is many times as
fast as row by row; who has to name the row that is wrong reads it again, by rows. Tables of
attempts are streams, of which rows are read (``farm.records.foreign_columns.table_of``).
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from farm.columns import Array, Coded, Floats
from farm.csv_cells import as_given

Kind = Literal["numbers", "texts", "coded"]
"""How the cells of a column are kept; an empty one is nan among numbers."""
_NUMBERS = msgspec.json.Decoder(list[float]).decode

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


class Gathered(NamedTuple):
    """The columns of a table that are used, by their places in it."""

    names: list[str]
    numbers: dict[int, Floats]
    texts: dict[int, list[str]]
    coded: dict[int, Coded]


def gathered(
    blocks: Iterable[Sequence[list[str]]],
    kinds_of: Callable[[list[str]], Mapping[int, Kind]],
) -> Gathered:
    """Return the columns in blocks of rows, the first of which begins with their names.

    ``kinds_of`` says by the names which columns are used, and how. Raises ValueError for a number
    that is none, and what the blocks raise.
    """
    names: list[str] = []
    kinds: Mapping[int, Kind] = {}
    numbers: dict[int, list[Floats]] = defaultdict(list)
    texts: dict[int, list[str]] = defaultdict(list)
    coded: dict[int, _Coding] = defaultdict(_Coding)
    for columns in blocks:
        if not names:
            names = [column.pop(0).strip() for column in columns]
            kinds = kinds_of(names)
        for place, kind in kinds.items():
            if kind == "numbers":
                numbers[place].append(numbers_of(columns[place]))
            elif kind == "texts":
                texts[place] += columns[place]
            else:
                coded[place].add(columns[place])
    return Gathered(
        names,
        {place: np.concatenate(parts) for place, parts in numbers.items()},
        texts,
        {place: one.column() for place, one in coded.items()},
    )


def numbers_of(cells: list[str]) -> Floats:
    """Return cells as numbers, nan for empty ones. Raises ValueError for what is none."""
    try:  # as JSON, many times as fast as singly
        found = np.array(_NUMBERS(f"[{','.join(cells)}]"), np.float64)
    except msgspec.MsgspecError:  # perhaps empty, or behind an apostrophe
        each = [float(as_given(cell) or "nan") for cell in cells]
        found = np.array(each, np.float64)
    if len(found) != len(cells) or np.isnan(found).sum() != cells.count(""):
        raise ValueError("found nan, or a comma; allowed: a number")
    return found


class _Coding:
    """A column while its cells are numbered."""

    def __init__(self) -> None:
        self._places: dict[str, int] = defaultdict(count().__next__)
        self._codes: list[Array] = []

    def add(self, cells: list[str]) -> None:
        if cells and cells[0] == cells[-1] and cells.count(cells[0]) == len(cells):
            codes = np.full(len(cells), self._places[cells[0]], np.int32)
        else:
            codes = np.fromiter(map(self._places.__getitem__, cells), np.int32, len(cells))
        self._codes.append(codes)

    def column(self) -> Coded:
        codes = np.concatenate(self._codes)
        if len(self._places) == 1:
            return Coded.same(next(iter(self._places)), len(codes))
        return Coded(codes, list(self._places))
