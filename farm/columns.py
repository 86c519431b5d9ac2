"""Columns of tables: arrays, and values that repeat as codes for them.

A table is columns of one length, a row each for a job, an attempt or a builder. Numbers are NumPy
arrays. Values that repeat, such as names of platforms, are ``Coded``. Both are indexed by ``Rows``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Array = NDArray[Any]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Texts = NDArray[np.object_]
Rows = Array | slice
"""A selection of rows: by flags, by their numbers in any order, or a piece."""

#: a number of combinations that an array of integers can hold
MAX_COMBINATIONS = 2**62
#: entries of a table for each number to look up, below which it is faster than sorting
MAX_TABLE_ENTRIES = 8
# a hash of a dict's JSON costs a fifth of one of its items
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode


def zeros(length: int) -> Array:
    """Return as many zeros, which take no memory and cannot be written."""
    return np.ndarray(length, np.int8, b"\0", strides=(0,))


class Coded(msgspec.Struct, frozen=True, eq=False):
    """A column of values that repeat: for each row the place of its value among the values.

    A row whose code is -1 has no value. The values are distinct, unless ``with_values`` put equal
    ones in their places; ``distinct`` mends that.
    """

    codes: Array
    values: Sequence[Any]

    @classmethod
    def same(cls, value: object, length: int) -> Coded:
        """Return the column of rows that all have this value; it takes no memory."""
        return cls(zeros(length), [value])

    @classmethod
    def of(cls, values: Sequence[object]) -> Coded:
        """Return the column of these values, one for each row; None is a value like others."""
        # most columns of a table have one value alone
        if len(values) and values[0] == values[-1] and values.count(values[0]) == len(values):
            return cls.same(values[0], len(values))
        try:
            return cls(*_places(values))
        except TypeError:  # dicts, which have no hash
            texts = [_ENCODE(value) if isinstance(value, dict) else value for value in values]
            codes, keys = _places(texts)
            return cls(codes, [_DECODE(key) if isinstance(key, bytes) else key for key in keys])

    def __getitem__(self, rows: Rows) -> Coded:
        return Coded(self.codes[rows], self.values)

    def with_values(self, values: Sequence[Any]) -> Coded:
        """Return the column with other values in the places of its own."""
        return Coded(self.codes, values)

    def distinct(self) -> Coded:
        """Return the same column, equal values with one place."""
        places = Coded.of(self.values)
        if len(places.values) == len(self.values):
            return self
        return Coded(places.codes[self.codes], places.values)

    def as_they_appear(self) -> Coded:
        """Return the same column of distinct values that occur, in the order in which they do."""
        column = self.distinct()
        codes, found = in_order_of_appearance(column.codes)
        return Coded(codes, [column.values[place] for place in found.tolist()])

    def occurring(self) -> Coded:
        """Return the same column; if it has more values than rows, with those that occur."""
        if len(self.values) <= len(self.codes):
            return self
        found, codes = np.unique(self.codes, return_inverse=True)
        values = [self.values[code] if code >= 0 else None for code in found.tolist()]
        return Coded(np.where(found < 0, -1, np.arange(len(found)))[codes], values)

    def replaced(self, default: object) -> Coded:
        """Return the column with a default where the value is UNSET."""
        values = [default if value is msgspec.UNSET else value for value in self.values]
        return self.with_values(values).distinct()

    def mapped(self, made: Callable[[Any], object]) -> Array:
        """Return the array of what is made of each row's value; each row has one."""
        return np.array([made(value) for value in self.values])[self.codes]

    def where(self, value: Hashable) -> Flags:
        """Return which rows have this value."""
        has_value: Flags = self.codes == self.values.index(value)
        return has_value

    def tolist(self) -> list[Any]:
        """Return the value of each row, or None."""
        values = [*self.values, None]
        return [values[code] for code in self.codes.tolist()]

    def texts(self) -> NDArray[np.str_]:
        """Return the value of each row as text, empty for none."""
        found, places = np.unique(self.codes, return_inverse=True)
        texts = [str(self.values[code]) if code >= 0 else "" for code in found.tolist()]
        return np.array(texts, np.str_)[places]


def _places(values: Sequence[object]) -> tuple[Array, list[object]]:
    """Return the place of each value among the distinct ones, by first appearance, and those."""
    places: dict[object, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(places.__getitem__, values), np.int32, len(values))
    return codes, list(places)


def combined(columns: Sequence[Coded], length: int) -> tuple[Array, Array]:
    """Return the first row of each combination of values, and the place of every row's."""
    codes = np.zeros(length, np.int64)
    combinations = 1
    for column in columns:
        if combinations * len(column.values) > MAX_COMBINATIONS:
            codes = distinct(codes)[2]
            combinations = length
        codes = codes * len(column.values) + column.codes
        combinations *= len(column.values)
    _, firsts, places = distinct(codes)
    return firsts, places


def columns_of(rows: Sequence[Mapping[str, object]]) -> dict[str, Coded]:
    """Return the fields of rows as columns; UNSET: not in this row."""
    fields = dict.fromkeys(field for row in rows for field in row)
    return {field: Coded.of([row.get(field, msgspec.UNSET) for row in rows]) for field in fields}


# --- numbers that stand for values ---------------------------------------------------------------


def distinct(numbers: Array) -> tuple[Array, Array, Array]:
    """Return the distinct numbers, ascending, the row where each appears first, and all places.

    As ``np.unique`` does, but in a table where whole numbers are close to each other.
    """
    length = len(numbers)
    if not length:
        return numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)
    if numbers.dtype.kind != "f":
        numbers = numbers.astype(np.int64, copy=False)
    lowest = numbers.min()
    highest = numbers.max()
    if lowest == highest:
        return numbers[:1], np.zeros(1, np.int64), np.zeros(length, np.int64)
    if not highest - lowest < MAX_TABLE_ENTRIES * length:
        return np.unique(numbers, return_index=True, return_inverse=True)
    codes = (numbers - lowest).astype(np.int64)
    if numbers.dtype.kind == "f" and not (codes + lowest == numbers).all():
        return np.unique(numbers, return_index=True, return_inverse=True)
    first = np.full(int(highest - lowest) + 1, length)
    first[codes[::-1]] = np.arange(length - 1, -1, -1)  # the last one written stays
    found = np.flatnonzero(first < length)
    firsts = first[found]
    first[found] = np.arange(len(found))
    return (found + lowest).astype(numbers.dtype), firsts, first[codes]


def in_order_of_appearance(numbers: Array) -> tuple[Numbers, Array]:
    """Number the values from 0, in order of first appearance; return also the distinct values."""
    found, first, places = distinct(numbers)
    order = np.argsort(first)
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return new[places], found[order]


def numbered(
    values: Iterable[T | None], known: dict[T, int] | None = None
) -> tuple[Numbers, list[T]]:
    """Number the values, None as -1; unknown ones get the next numbers as they appear."""
    known = {} if known is None else known
    for number, value in enumerate(known):
        known[value] = number
    numbers = [-1 if v is None else known.setdefault(v, len(known)) for v in values]
    return np.array(numbers, np.int64), list(known)


# --- what makes a column of a value per row -----------------------------------------------------


def floats(values: Iterable[float | None]) -> Floats:
    """Return a column of numbers; None becomes NaN."""
    return np.array(list(values), np.float64)


def integers(values: Iterable[int | None]) -> Numbers:
    """Return a column of whole numbers; None becomes -1."""
    return np.array([-1 if value is None else value for value in values], np.int64)


def presence(values: Iterable[object]) -> Flags:
    """Return which values are not None."""
    return np.array([value is not None for value in values], np.bool_)


def filled(values: Iterable[Sequence[object]]) -> Flags:
    """Return which values are not empty."""
    return np.array([len(value) > 0 for value in values], np.bool_)


def texts(values: Iterable[str]) -> Texts:
    """Return a column of texts, which are not copied."""
    return np.array(list(values), np.object_)


def as_they_are(values: Iterable[Any]) -> Array:
    """Return a column of the values' own type."""
    return np.array(list(values))


def coded(values: Iterable[T | None], known: dict[T, int] | None = None) -> Coded:
    """Return a column of values that repeat, None as no value.

    Values that are not known are numbered behind those that are.
    """
    return Coded(*numbered(values, known))


def one_of(values: Sequence[object]) -> Callable[[Iterable[object]], Coded]:
    """Return the maker of columns that have these values only."""
    places = {value: place for place, value in enumerate(values)} | {None: -1}
    return lambda column: Coded(np.array([places[value] for value in column], np.int64), values)


# --- arithmetic ---------------------------------------------------------------------------------


def known(values: Floats) -> Floats:
    """Return the values that are not NaN."""
    return values[~np.isnan(values)]


def total(values: Floats) -> float:
    """Return the sum, added up from first to last."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def time_within(starts: Floats, ends: Floats, edges: Floats) -> Floats:
    """Return the time that all spans together have in each interval between the edges."""
    sums = []
    for instants in (starts, ends):
        ordered = np.sort(instants)
        before = np.searchsorted(ordered, edges, side="right")
        sums.append(before * edges - np.concatenate([[0.0], np.cumsum(ordered)])[before])
    return np.diff(sums[0] - sums[1])


def which(rows: Flags) -> Flags | slice:
    """Return what takes these rows of a column: all of them without a copy."""
    return slice(None) if rows.all() else rows
