"""Tables whose columns are declared once, and made at their first use by whatever fills them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from farm.records.coded import distinct

A = TypeVar("A")
T = TypeVar("T")

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]
Rows = Flags | Numbers | slice
"""A selection of rows: by flags, by their numbers in any order, or a piece."""


class Coded:
    """A column of values that repeat: each row's number among the values; -1: it has none."""

    def __init__(self, numbers: Numbers, values: Sequence[Any]) -> None:
        self.numbers = numbers
        self.values = values

    def __getitem__(self, rows: Rows) -> Coded:
        return Coded(self.numbers[rows], self.values)

    def where(self, value: Hashable) -> Flags:
        """Return which rows have this value."""
        found: Flags = self.numbers == self.values.index(value)
        return found

    def each(self) -> list[Any]:
        """Return the value of each row, or None."""
        values = [*self.values, None]
        return [values[number] for number in self.numbers.tolist()]

    def texts(self) -> npt.NDArray[np.str_]:
        """Return the value of each row as text, empty for none."""
        found, places = np.unique(self.numbers, return_inverse=True)
        texts = [str(self.values[number]) if number >= 0 else "" for number in found.tolist()]
        return np.array(texts, np.str_)[places]


class Column(cached_property[A]):
    """A column: ``made`` makes it of a value per row, which is ``source`` of the row's record.

    A public one is in files and in ``farm.JobTable``.
    """

    def __init__(
        self, made: Callable[[Iterable[Any]], A], source: str, *, public: bool = False
    ) -> None:
        super().__init__(lambda table: table.fill(self))
        self.made = made
        self.source = source
        self.public = public

    def of(self, records: Iterable[Any]) -> A:
        """Return the column of these records, one per row."""
        return self.made(map(attrgetter(self.source), records))


class public(cached_property[A]):  # noqa: N801 - a decorator
    """A column that is computed from others, and is public; one that is not is a cached_property.

    If it is None, the table has no such column.
    """

    public = True


class Table:
    """Columns of one length; what is not a column is common to all rows."""

    #: filled or computed, in order
    columns: ClassVar[dict[str, cached_property[object]]]

    def __init_subclass__(cls) -> None:
        columns = vars(cls).items()
        cls.columns = {name: one for name, one in columns if isinstance(one, cached_property)}

    @classmethod
    def add(cls, name: str, column: Column[object]) -> None:
        """Add a column that is not declared in the class."""
        column.__set_name__(cls, name)
        setattr(cls, name, column)
        cls.columns[name] = column

    def __init__(
        self, count: int, fill: Callable[[Column[object]], object] | None = None, **given: object
    ) -> None:
        self.count = count
        #: makes the columns that are neither given nor derived
        self.fill = fill
        vars(self).update(given)

    @classmethod
    def of(cls, records: Sequence[object], **given: object) -> Self:
        """Return the table of these records, one per row."""
        return cls(len(records), lambda column: column.of(records), **given)

    def __len__(self) -> int:
        return self.count

    def taken(self, rows: Rows) -> Self:
        """Return the table of some rows."""
        if not isinstance(rows, slice) and rows.dtype == np.bool_ and rows.all():
            return self
        common = {name: it for name, it in vars(self).items() if name not in self.columns}
        count = len(np.empty(self.count, np.bool_)[rows])
        common |= {"count": count, "fill": lambda column: getattr(self, column.attrname)[rows]}
        return type(self)(**common)

    def having(self, **more: object) -> Self:
        """Return the same table, with more that is given."""
        return type(self)(**vars(self) | more)


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


def texts(values: Iterable[str]) -> Texts:
    """Return a column of texts, which are not copied."""
    return np.array(list(values), np.object_)


def as_they_are(values: Iterable[Any]) -> npt.NDArray[Any]:
    """Return a column of the values' own type."""
    return np.array(list(values))


def coded(values: Iterable[T | None], known: dict[T, int] | None = None) -> Coded:
    """Return a column of values that repeat; those that are not known are numbered behind them."""
    return Coded(*numbered(values, known))


def one_of(values: Sequence[object]) -> Callable[[Iterable[object]], Coded]:
    """Return the maker of columns that have these values only."""
    known = {value: number for number, value in enumerate(values)} | {None: -1}
    return lambda found: Coded(np.array([known[one] for one in found], np.int64), values)


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


def which(some: Flags) -> Flags | slice:
    """Return what takes these of a column: all of them without a copy."""
    return slice(None) if some.all() else some


def numbered(
    values: Iterable[T | None], known: dict[T, int] | None = None
) -> tuple[Numbers, list[T]]:
    """Number the values, None as -1; unknown ones get the next numbers as they appear."""
    known = {} if known is None else known
    for number, value in enumerate(known):
        known[value] = number
    numbers = [-1 if v is None else known.setdefault(v, len(known)) for v in values]
    return np.array(numbers, np.int64), list(known)


def in_order_of_appearance(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Number the values from 0, in order of first appearance; return also the distinct values."""
    found, first, places = distinct(numbers)
    order = np.argsort(first)
    new = np.empty(len(order), np.int64)
    new[order] = np.arange(len(order))
    return new[places], found[order]
