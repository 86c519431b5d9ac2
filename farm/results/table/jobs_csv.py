"""``jobs.csv``: the table of a run's jobs, one row per job; an empty cell is a missing value.

A text that a spreadsheet takes for a formula is written behind an apostrophe.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TextIO

import msgspec
import numpy as np

from farm.core.errors import InputError, file_access
from farm.csv_cells import as_given, harmless
from farm.results.table.job_table import AT_ONCE, COLUMNS, TYPES, Array, JobTable, joined
from farm.results.table.jobs import OUTCOMES
from farm.whole_files import ending

#: of the columns of numbers that have no empty cells
_FULL: Mapping[str, object] = {"submitted_at_s": list[float], "attempts": list[int]}
#: by the kind of a column's type
_ALLOWED = {"f": "a number", "i": "a whole number", "U": ", ".join(OUTCOMES)}


def write_jobs(path: Path | str, tables: Iterable[JobTable]) -> int:
    """Write a table that comes in parts as CSV with a header; return the number of jobs."""
    count = 0
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, table in enumerate(tables):
            if number == 0:
                writer.writerow(table.columns)
            writer.writerows(zip(*map(_cells, table.to_dict().values()), strict=True))
            count += len(table)
    return count


def _cells(column: Array) -> Sequence[object]:
    """Return a column as csv prints it, if it has numbers many times as fast; NaN is empty."""
    values: list[object] = column.tolist()
    if column.dtype.kind == "U":
        return list(map(harmless, values))
    if column.dtype != np.float64 or not values:
        return values
    return msgspec.json.encode(values).decode()[1:-1].replace("null", "").split(",")


def read_jobs(path: Path | str) -> JobTable:
    """Return the table in a jobs.csv. Raises InputError with the line number."""
    return joined(_tables(Path(path)))


def _tables(path: Path) -> Iterator[JobTable]:
    with file_access(path, "read the jobs"):
        file = ending(path).open(newline="", encoding="utf-8")
    with file:
        lines = _lines(path, file)
        _, header = next(lines, (1, []))
        if tuple(header[: len(COLUMNS)]) != COLUMNS:
            raise InputError(
                f"{path}, line 1: the columns are {', '.join(header) or 'missing'}; "
                f"expected {', '.join(COLUMNS)}"
            )
        yield _table(path, header, [])
        while some := list(islice(lines, AT_ONCE)):
            yield _table(path, header, some)


def _lines(path: Path, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield each row's cells, with the number of its (last) line."""
    reader = csv.reader(file)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except UnicodeDecodeError:  # it is decoded in blocks: which line it was is not known
        raise InputError(f"{path}, after line {reader.line_num}: not UTF-8 text") from None
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a table: {error}") from None


def _table(path: Path, header: list[str], lines: list[tuple[int, list[str]]]) -> JobTable:
    for line, cells in lines:
        if len(cells) != len(header):
            wrong = f"{len(cells)} cells; expected {len(header)}"
            raise InputError(f"{path}, line {line}: {wrong}")
    columns: dict[str, Array] = {}
    for place, name in enumerate(header):
        cells = [cells[place] for _, cells in lines]
        try:
            columns[name] = _column(name, cells)
        except (ValueError, OverflowError, msgspec.MsgspecError):
            if len(lines) > 1:  # each is read alone, up to the wrong one
                for one in lines:
                    _table(path, header, [one])
            wrong = f"{name}: found {cells[0]!r:.60}; allowed: {_ALLOWED[TYPES[name].kind]}"
            raise InputError(f"{path}, line {lines[0][0]}: {wrong}") from None
    return JobTable(columns)


def _column(name: str, cells: list[str]) -> Array:
    """Return the column of these cells; numbers are read as JSON, many times as fast as singly.

    Raises ValueError, OverflowError, or an error of msgspec.
    """
    if name == "outcome" and not set(cells).issubset(OUTCOMES):
        raise ValueError
    if name not in TYPES or TYPES[name].kind == "U":
        return np.array([as_given(cell) for cell in cells], np.str_)
    text = ",".join(cells if name in _FULL else [cell or "null" for cell in cells])
    numbers = msgspec.json.decode(f"[{text}]", type=_FULL.get(name, list[float | None]))
    if len(numbers) != len(cells):  # a cell has a comma
        raise ValueError
    return np.array(numbers, TYPES[name])
