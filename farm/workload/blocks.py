"""Jobs as columns, block by block: numbers, values that repeat, names made when asked for.

A Job exists where one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from farm.columns import Array, Coded, Rows, zeros
from farm.core.fields import fields_of
from farm.core.model import Job


class Names(msgspec.Struct, frozen=True, eq=False):
    """Names, or lists of names, that are made of numbers, each by one of several functions."""

    functions: Sequence[Callable[[int], Any]]
    which: Array
    numbers: Array

    @classmethod
    def by(cls, function: Callable[[int], Any], numbers: Array) -> Names:
        """Return the names that one function makes."""
        return cls([function], zeros(len(numbers)), numbers)

    def __getitem__(self, rows: Rows) -> Names:
        return Names(self.functions, self.which[rows], self.numbers[rows])

    def tolist(self) -> list[Any]:
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

    def given(self) -> dict[str, Array | Coded | list[Any]]:
        """Return the columns of the fields that do not all have their default, without ids.

        Names are made. A number that equals its default, and a value that is it, are defaults: the
        log leaves them out.
        """
        columns: dict[str, Array | Coded | list[Any]] = {}
        for field in dict.fromkeys([*self.columns, "declared_time"]):
            column, default = self.column(field), DEFAULTS[field]
            if field == "id":
                continue
            if isinstance(column, Names):
                columns[field] = column.tolist()
            elif isinstance(column, Coded) and isinstance(default, float):
                values = [default if value == default else value for value in column.values]
                columns[field] = column.with_values(values)
            else:
                columns[field] = column
        return columns

    def array(self, field: str) -> Array:
        """Return the numbers of a field that has a number for every job."""
        return _numbers(self.column(field))

    def coded(self, field: str) -> Coded:
        """Return the column of a field whose values repeat."""
        found = self.column(field)
        return found if isinstance(found, Coded) else Coded.of(found.tolist())

    def taken(self, rows: Rows) -> Block:
        """Return some of the jobs."""
        return Block({field: column[rows] for field, column in self.columns.items()})

    def jobs(self) -> Iterator[Job]:
        """Make the jobs, one after the other."""
        fields = list(dict.fromkeys([*self.columns, "declared_time"]))
        for row in zip(*map(self.values, fields), strict=True):
            yield Job(**dict(zip(fields, row, strict=True)))


def _numbers(column: Any) -> Array:
    found: Array = np.array(column.values)[column.codes] if isinstance(column, Coded) else column
    return found


DEFAULTS = {name: field.default for name, field in fields_of(Job).items()}
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
    places: dict[Callable[[int], Any], int] = {}
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


class JobColumns:
    """Jobs in blocks by arrival; those that are not held can be read once."""

    #: the jobs that others of them need, by id
    needed: frozenset[str] = frozenset()

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks: Iterator[Block] = (block for block in blocks if len(block))
        #: the jobs that are held
        self.held: Block | None = None

    @classmethod
    def of(cls, held: Block) -> JobColumns:
        """Return these jobs, held."""
        made = cls(())
        made.held = held
        return made

    @classmethod
    def merged(cls, sources: Sequence[JobColumns]) -> JobColumns:
        """Return the jobs of all sources by (arrival, position of the source, serial in it)."""
        if len(sources) == 1:
            return sources[0]
        merged = cls(_merged([one._blocks for one in sources]))
        merged.needed = frozenset().union(*(one.needed for one in sources))
        return merged

    def before(self, horizon: float) -> JobColumns:
        """Return the jobs that arrive before an instant."""
        made = JobColumns(_before(self._blocks, horizon))
        made.needed = self.needed
        return made

    @property
    def is_empty(self) -> bool:
        """Return whether there are none."""
        first = next(self._blocks, None)
        if first is not None:
            self._blocks = chain((first,), self._blocks)
        return first is None

    def hold(self, most: int | None = None) -> bool:
        """Draw ``most`` jobs or some more, None: all; return whether fewer than that are all.

        Those that are held already are the first.
        """
        blocks = [] if self.held is None else [self.held]
        count = len(self)
        while most is None or count < most:
            block = next(self._blocks, None)
            if block is None:
                break
            blocks.append(block)
            count += len(block)
        self.held = joined(blocks) if blocks else None
        return most is None or count < most

    def blocks(self) -> Iterator[Block]:
        """Return the jobs block by block; none are held then."""
        held, self.held = self.held, None
        return chain(() if held is None else (held,), self._blocks)

    def ids(self) -> list[str]:
        """Return the ids of the held jobs."""
        return [] if self.held is None else self.held.column("id").tolist()

    def __len__(self) -> int:
        return 0 if self.held is None else len(self.held)

    def __getitem__(self, place: int) -> Job:
        if self.held is None:
            raise IndexError(place)
        return next(self.held.taken(slice(place, place + 1)).jobs())

    def __iter__(self) -> Iterator[Job]:
        held = () if self.held is None else (self.held,)
        return (job for block in chain(held, self._blocks) for job in block.jobs())


def _before(blocks: Iterator[Block], horizon: float) -> Iterator[Block]:
    for block in blocks:
        some = int(np.searchsorted(block.array("arrived_at"), horizon))
        if some < len(block):
            yield block.taken(slice(some))
            return
        yield block


def _merged(sources: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Yield, as sources are read on, what arrives before all that is to come."""
    more = dict(enumerate(sources))
    left: dict[int, Block] = {}
    while more:
        # the source that is known for the shortest time is read on
        least = min(more, key=lambda n: (_ends_at(left[n]) if n in left else -np.inf, n))
        block = next(more[least], None)
        if block is None:
            del more[least]
        else:
            left[least] = joined([left[least], block]) if least in left else block
        if not more:
            break
        if any(n not in left for n in more):
            continue
        known_until = min(_ends_at(left[n]) for n in more)
        ready = []
        for n in sorted(left):
            some = int(np.searchsorted(left[n].array("arrived_at"), known_until))
            if some:
                ready.append(left[n].taken(slice(some)))
                left[n] = left[n].taken(slice(some, None))
        if ready:
            yield _sorted(ready)
    if rest := [left[n] for n in sorted(left) if len(left[n])]:
        yield _sorted(rest)


def _ends_at(block: Block) -> float:
    return float(block.array("arrived_at")[-1])


def _sorted(blocks: Sequence[Block]) -> Block:
    """Return the jobs of blocks by arrival; at one instant, in the order of the blocks."""
    whole = joined(blocks)
    return whole.taken(np.argsort(whole.array("arrived_at"), kind="stable"))
