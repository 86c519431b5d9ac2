"""Columns of values that repeat, as numbers and the values that they stand for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rows = Array | slice
#: a number of combinations that an array of integers can hold
LARGEST = 2**62
#: entries of a table for each number to look up, below which it is faster than sorting
TABLED = 8
# a hash of a dict's JSON costs a fifth of one of its items
_ENCODE, _DECODE = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


def zeros(count: int) -> Array:
    """Return as many zeros, which take no memory and cannot be written."""
    return np.ndarray(count, np.int8, b"\0", strides=(0,))


class Coded(NamedTuple):
    """Values that repeat: the place of each row's value among the values, which are distinct."""

    codes: Array
    values: Sequence[Any]

    @classmethod
    def same(cls, value: object, count: int) -> Coded:
        """Return the column of rows that all have this value; it takes no memory."""
        return cls(zeros(count), [value])

    @classmethod
    def of(cls, values: Sequence[object]) -> Coded:
        """Return the column of these values, one for each row."""
        # most columns of a table have one value alone
        if len(values) and values[0] == values[-1] and values.count(values[0]) == len(values):
            return cls.same(values[0], len(values))
        try:
            return cls(*_numbered(values))
        except TypeError:  # dicts, which have no hash
            texts = [_ENCODE(one) if isinstance(one, dict) else one for one in values]
            codes, keys = _numbered(texts)
            return cls(codes, [_DECODE(key) if isinstance(key, bytes) else key for key in keys])

    def distinct(self) -> Coded:
        """Return the same column, equal values with one place."""
        codes, values = Coded.of(self.values)
        return self if len(values) == len(self.values) else Coded(codes[self.codes], values)

    def as_they_appear(self) -> Coded:
        """Return the same column of distinct values that occur, in the order in which they do."""
        codes, values = self.distinct()
        found, firsts, places = distinct(codes)
        order = np.argsort(firsts)
        new = np.empty(len(order), np.int64)
        new[order] = np.arange(len(order))
        return Coded(new[places], [values[place] for place in found[order].tolist()])

    def taken(self, rows: Rows) -> Coded:
        """Return the column of some rows."""
        return Coded(self.codes[rows], self.values)

    def replaced(self, default: object) -> Coded:
        """Return the column with a default where the value is UNSET."""
        values = [default if value is msgspec.UNSET else value for value in self.values]
        return Coded(self.codes, values).distinct()

    def mapped(self, made: Callable[[Any], object]) -> Array:
        """Return the array of what is made of each row's value."""
        return np.array([made(value) for value in self.values])[self.codes]

    def tolist(self) -> list[Any]:
        """Return the value of each row."""
        values = self.values
        return [values[code] for code in self.codes.tolist()]


def _numbered(values: Sequence[object]) -> tuple[Array, list[object]]:
    """Return the place of each value among the distinct ones, by first appearance, and those."""
    places: dict[object, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(places.__getitem__, values), np.int32, len(values))
    return codes, list(places)


def distinct(numbers: Array) -> tuple[Array, Array, Array]:
    """Return the distinct numbers, ascending, the row where each appears first, and all places.

    As ``np.unique`` does, but in a table where whole numbers are close to each other.
    """
    count = len(numbers)
    if not count:
        return numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)
    if numbers.dtype.kind != "f":
        numbers = numbers.astype(np.int64, copy=False)
    least, most = numbers.min(), numbers.max()
    if least == most:
        return numbers[:1], np.zeros(1, np.int64), np.zeros(count, np.int64)
    if not most - least < TABLED * count:
        return np.unique(numbers, return_index=True, return_inverse=True)
    codes = (numbers - least).astype(np.int64)
    if numbers.dtype.kind == "f" and not (codes + least == numbers).all():
        return np.unique(numbers, return_index=True, return_inverse=True)
    first = np.full(int(most - least) + 1, count)
    first[codes[::-1]] = np.arange(count - 1, -1, -1)  # the last one written stays
    found = np.flatnonzero(first < count)
    firsts = first[found]
    first[found] = np.arange(len(found))
    return (found + least).astype(numbers.dtype), firsts, first[codes]


def combined(columns: Sequence[Coded], count: int) -> tuple[Array, Array]:
    """Return the first row of each combination of values, and the place of every row's."""
    code, most = np.zeros(count, np.int64), 1
    for one in columns:
        if most * len(one.values) > LARGEST:
            code, most = distinct(code)[2], count
        code, most = code * len(one.values) + one.codes, most * len(one.values)
    _, firsts, places = distinct(code)
    return firsts, places


def columns_of(rows: Sequence[Mapping[str, object]]) -> dict[str, Coded]:
    """Return the fields of rows as columns; UNSET: not in this row."""
    fields = dict.fromkeys(field for row in rows for field in row)
    return {field: Coded.of([row.get(field, msgspec.UNSET) for row in rows]) for field in fields}
