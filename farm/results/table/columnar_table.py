"""Tables whose columns are declared once, and made at their first use by whatever fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from farm.columns import Rows

A = TypeVar("A")


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
