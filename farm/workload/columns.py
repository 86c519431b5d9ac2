"""Columns of jobs: numbers, values that repeat, and names that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.core.model import JOB_FIELDS, Job
from farm.records.coded import Array, Coded, Rows, zeros

Floats = NDArray[np.float64]


class Names(NamedTuple):
    """Names that are made of numbers, each by one of several functions."""

    functions: Sequence[Callable[[int], str]]
    which: Array
    numbers: Array

    @classmethod
    def by(cls, function: Callable[[int], str], numbers: Array) -> Names:
        """Return the names that one function makes."""
        return cls([function], zeros(len(numbers)), numbers)

    def taken(self, rows: Rows) -> Names:
        """Return the column of some rows."""
        return Names(self.functions, self.which[rows], self.numbers[rows])

    def tolist(self) -> list[str]:
        """Return the name of each row."""
        if len(self.functions) == 1:
            return list(map(self.functions[0], self.numbers.tolist()))
        pairs = zip(self.which.tolist(), self.numbers.tolist(), strict=True)
        return [self.functions[which](number) for which, number in pairs]


Column = Array | Coded | Names
"""One value for each row."""


class Block:
    """Some jobs as columns, by the names of their fields.

    A field without a column has its default; without declared times a job declares its service
    time.
    """

    def __init__(self, columns: dict[str, Column]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.array("arrived_at"))

    def column(self, field: str) -> Column:
        """Return the column of a field."""
        if field == "declared_time":
            field = field if field in self.columns else "service_time"
        found = self.columns.get(field)
        return Coded.same(DEFAULTS[field], len(self)) if found is None else found

    def values(self, field: str) -> list[Any]:
        """Return the value of each job; a default is that very object: the log leaves it out."""
        values, default = self.column(field).tolist(), DEFAULTS[field]
        if isinstance(default, float):
            return [default if value == default else value for value in values]
        return values

    def array(self, field: str) -> Array:
        """Return the numbers of a field that has a number for every job."""
        return _numbers(self.column(field))

    def coded(self, field: str) -> Coded:
        """Return the column of a field whose values repeat."""
        found = self.column(field)
        return found if isinstance(found, Coded) else Coded.of(found.tolist())

    def taken(self, rows: Rows) -> Block:
        """Return some of the jobs."""
        return Block(
            {
                field: one[rows] if isinstance(one, np.ndarray) else one.taken(rows)
                for field, one in self.columns.items()
            }
        )

    def jobs(self) -> Iterator[Job]:
        """Make the jobs, one after the other."""
        fields = list(dict.fromkeys([*self.columns, "declared_time"]))
        for row in zip(*map(self.values, fields), strict=True):
            yield Job(**dict(zip(fields, row, strict=True)))


def _numbers(column: Any) -> Array:
    found: Array = np.array(column.values)[column.codes] if isinstance(column, Coded) else column
    return found


DEFAULTS = {name: field.default for name, field in JOB_FIELDS.items()}
"""What a field holds that is not given."""


def joined(blocks: Sequence[Block]) -> Block:
    """Return the jobs of all these blocks, one block after the other."""
    if len(blocks) == 1:
        return blocks[0]
    fields = dict.fromkeys(field for block in blocks for field in block.columns)
    return Block({field: _joined([one.column(field) for one in blocks]) for field in fields})


def _joined(parts: Sequence[Any]) -> Column:
    kinds = {type(part) for part in parts}
    if kinds == {Coded}:
        return _joined_codes(parts)
    if kinds == {Names}:
        return _joined_names(parts)
    repeated = (value for part in parts if type(part) is Coded for value in part.values)
    if Names not in kinds and all(isinstance(value, bool | float) for value in repeated):
        return np.concatenate([_numbers(part) for part in parts])
    return Coded.of([value for part in parts for value in part.tolist()])


def _joined_codes(parts: Sequence[Coded]) -> Coded:
    values = parts[0].values
    if all(part.values is values or part.values == values for part in parts):
        if len(values) == 1:
            return Coded.same(values[0], sum(len(part.codes) for part in parts))
        return Coded(np.concatenate([part.codes for part in parts]), values)
    every: list[object] = []
    codes = []
    for part in parts:
        codes.append(part.codes.astype(np.int32) + len(every))
        every += part.values
    return Coded(np.concatenate(codes), every).distinct()


def _joined_names(parts: Sequence[Names]) -> Names:
    places: dict[Callable[[int], str], int] = {}
    for part in parts:
        for function in part.functions:
            places.setdefault(function, len(places))
    numbers = np.concatenate([part.numbers for part in parts])
    if len(places) == 1:
        return Names.by(parts[0].functions[0], numbers)
    which = [
        np.array([places[one] for one in part.functions], np.int16)[part.which] for part in parts
    ]
    return Names([*places], np.concatenate(which), numbers)
