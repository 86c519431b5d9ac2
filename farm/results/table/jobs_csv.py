"""``jobs.csv``: the table of a run's jobs, one row per job; an empty cell is a missing value.

A text that a spreadsheet takes for a formula is written behind an apostrophe.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np

from farm.columns import Array, Coded
from farm.core.errors import InputError, file_access
from farm.csv_cells import as_given, text_cells
from farm.records.table_reader import plain_columns
from farm.results.table.job_columns import OUTCOMES
from farm.results.table.job_table import (
    AT_ONCE,
    COLUMNS,
    TYPES,
    ColumnTable,
    JobTable,
    joined,
)
from farm.whole_files import ending

#: characters that are read at once
_BLOCK = 1 << 20
#: of the columns of numbers that have no empty cells
_FULL: Mapping[str, object] = {"submitted_at_s": list[float], "attempts": list[int]}
#: by the kind of a column's type
_ALLOWED = {"f": "a number", "i": "a whole number", "U": ", ".join(OUTCOMES)}


def write_jobs(path: Path | str, tables: Iterable[ColumnTable]) -> int:
    """Write a table that comes in parts as CSV with a header; return the number of rows."""
    count = 0
    cells = _Cells()
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        for number, table in enumerate(tables):
            names = table.columns
            if number == 0:
                file.write(",".join(text_cells(names)) + "\n")
            columns = [cells.of(name, table) for name in names]
            rows = map(",".join, zip(*columns, strict=True))
            if table_text := "\n".join(rows):
                file.write(f"{table_text}\n")
            count += len(table)
    return count


class _Cells:
    """Makes the cells of columns, as csv prints them: those of a value that repeats once."""

    def __init__(self) -> None:
        #: by column, the values that repeat and their cells; the last cell is of no value
        self._known: dict[str, tuple[Sequence[Any], list[str]]] = {}

    def of(self, name: str, table: ColumnTable) -> Sequence[str]:
        """Return the cells of a column."""
        first, *others = [self._of_part(name, part) for part in table.parts(name)]
        return list(chain(first, *others)) if others else first

    def _of_part(self, name: str, part: Coded | Array) -> Sequence[str]:
        if isinstance(part, Coded):
            known = self._known.get(name)
            if known is None or known[0] is not part.values:
                texts = list(map(str, part.values))
                known = self._known[name] = part.values, [*text_cells(texts), ""]
            return list(map(known[1].__getitem__, part.codes.tolist()))
        values: list[Any] = part.tolist()
        if part.dtype.kind in "if" and values:
            return _number_cells(part, values)
        if not {*map(type, values)} <= {str}:  # a field of the user's own
            values = ["" if value is None else str(value) for value in values]
        distinct = dict.fromkeys(values)
        if 2 * len(distinct) > len(values):
            return text_cells(values)
        cells = dict(zip(distinct, text_cells(list(distinct)), strict=True))
        return list(map(cells.__getitem__, values))


def _number_cells(column: Array, values: list[float]) -> list[str]:
    """Return the cells of numbers; NaN is empty."""
    if column.dtype.kind == "f" and np.isnan(column).all():
        return [""] * len(values)
    return msgspec.json.encode(values).decode()[1:-1].replace("null", "").split(",")


def read_jobs(path: Path | str) -> JobTable:
    """Return the table in a jobs.csv. Raises InputError with the line number."""
    return joined(_tables(Path(path)))


def _tables(path: Path) -> Iterator[JobTable]:
    with file_access(path, "read the jobs"):
        file = ending(path).open(newline="", encoding="utf-8")
    with file:
        read, header = next(_rows(path, file), (1, []))
        if tuple(header[: len(COLUMNS)]) != COLUMNS:
            raise InputError(
                f"{path}, line 1: the columns are {', '.join(header) or 'missing'}; "
                f"expected {', '.join(COLUMNS)}"
            )
        yield _table(header, [[] for _ in header])
        with suppress(ValueError, OverflowError, msgspec.MsgspecError):
            while some := _lines(path, file, read):
                columns = plain_columns("".join(some), ",") or []
                if {*map(len, columns)} != {len(some)} or len(columns) != len(header):
                    break
                yield _table(header, columns)
                read += len(some)
        # cells in quotes, or something wrong, which is named
        rows = _rows(path, chain(some, file), read)
        while part := list(islice(rows, AT_ONCE)):
            yield _checked(path, header, part)


def _lines(path: Path, file: TextIO, before: int) -> list[str]:
    """Return the next lines of a file, not all of them."""
    try:
        return file.readlines(_BLOCK)
    except UnicodeDecodeError:  # which line it was is not known
        raise InputError(f"{path}, after line {before}: not UTF-8 text") from None


def _rows(path: Path, lines: Iterable[str], before: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's cells, with the number of its (last) line; ``before`` come other lines."""
    reader = csv.reader(lines)
    try:
        for cells in reader:
            yield before + reader.line_num, cells
    except UnicodeDecodeError:  # as above
        raise InputError(f"{path}, after line {before + reader.line_num}: not UTF-8 text") from None
    except csv.Error as error:
        raise InputError(f"{path}, line {before + reader.line_num}: not a table: {error}") from None


def _checked(path: Path, header: list[str], rows: list[tuple[int, list[str]]]) -> JobTable:
    """Return the table of these rows. Raises InputError with the line that is wrong."""
    for line, cells in rows:
        if len(cells) != len(header):
            wrong = f"{len(cells)} cells; expected {len(header)}"
            raise InputError(f"{path}, line {line}: {wrong}")
    with suppress(ValueError, OverflowError, msgspec.MsgspecError):
        return _table(
            header, [list(column) for column in zip(*(row for _, row in rows), strict=True)]
        )
    for line, cells in rows:
        for name, cell in zip(header, cells, strict=True):
            try:
                _column(name, [cell])
            except (ValueError, OverflowError, msgspec.MsgspecError):
                wrong = f"{name}: found {cell!r:.60}; allowed: {_ALLOWED[TYPES[name].kind]}"
                raise InputError(f"{path}, line {line}: {wrong}") from None
    raise AssertionError("a table is wrong, and no row of it is")


def _table(header: list[str], columns: list[list[str]]) -> JobTable:
    """Return the table of these columns; raises as ``_column`` does."""
    return JobTable(
        {name: _column(name, cells) for name, cells in zip(header, columns, strict=True)}
    )


def _column(name: str, cells: list[str]) -> Array:
    """Return the column of these cells; numbers are read as JSON, many times as fast as singly.

    Raises ValueError, OverflowError, or an error of msgspec.
    """
    if name == "outcome" and not set(cells).issubset(OUTCOMES):
        raise ValueError
    text = ",".join(cells)
    if (
        name == "needs"
    ):  # long ones are rare: an array of texts would have room for them in each row
        return np.array([as_given(cell) for cell in cells], np.object_)
    if name not in TYPES or TYPES[name].kind == "U":
        return np.array([*map(as_given, cells)] if "'" in text else cells, np.str_)
    if name not in _FULL and "" in cells:
        text = ",".join([cell or "null" for cell in cells])
    numbers = msgspec.json.decode(f"[{text}]", type=_FULL.get(name, list[float | None]))
    if len(numbers) != len(cells):  # a cell has a comma
        raise ValueError
    return np.array(numbers, TYPES[name])
