"""The cells of a table as columns that take little memory, made while they are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from farm.csv_cells import as_given
from farm.records.attempt import Times
from farm.records.coded import Array, Coded

_DECODE = msgspec.json.Decoder(list[float]).decode
Kind = Literal["numbers", "texts", "coded"]
"""How the cells of a column are kept; an empty one is nan among numbers."""


class Gathered(NamedTuple):
    """The columns of a table that are used, by their places in it."""

    names: list[str]
    numbers: dict[int, Times]
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
    numbers: dict[int, list[Times]] = defaultdict(list)
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


def numbers_of(cells: list[str]) -> Times:
    """Return cells as numbers, nan for empty ones. Raises ValueError for what is none."""
    try:  # as JSON, many times as fast as singly
        found = np.array(_DECODE(f"[{','.join(cells)}]"), np.float64)
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
