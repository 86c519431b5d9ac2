"""The values of which a table on a terminal is made: its columns, cells, and the words beside them.

Nothing here is laid out, so that rich, which does that, need not be imported by what makes tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from rich.text import Text

GAP = 2
"""Columns of blank space between two columns of a table."""

Cell: TypeAlias = "str | Styled | Text"


class ListingColumn(NamedTuple):
    """A column of a listing."""

    name: str
    right: bool = False
    #: may be folded over several lines
    folds: bool = False
    #: says more of the column before it, and is left out with it
    follows: bool = False


def texts(*names: str) -> tuple[ListingColumn, ...]:
    """Return columns of text."""
    return tuple(ListingColumn(name) for name in names)


def numbers(*names: str) -> tuple[ListingColumn, ...]:
    """Return columns of numbers."""
    return tuple(ListingColumn(name, right=True) for name in names)


def folding(*names: str) -> tuple[ListingColumn, ...]:
    """Return columns of text that may be folded over several lines."""
    return tuple(ListingColumn(name, folds=True) for name in names)


def following(columns: Iterable[ListingColumn]) -> tuple[ListingColumn, ...]:
    """Return columns that say more of the one before them, and are left out with it."""
    return tuple(column._replace(follows=True) for column in columns)


class Styled:
    """A text in parts, each in a style of rich's, which makes it when it is shown in colours."""

    def __init__(self, *parts: tuple[str, str]) -> None:
        self.parts = parts

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.parts)

    def __rich__(self) -> Text:
        from rich.text import Text  # noqa: PLC0415 - rich, for what is shown

        if len(self.parts) == 1:
            return Text(*self.parts[0])
        return Text.assemble(*self.parts)


def styled(text: str, style: str = "") -> Styled:
    """Return a text in a style."""
    return Styled((text, style))


class TableContent:
    """What a table says, and in which order its columns give way.

    The first column is never left out, and is folded rather than cut; others are left out whole in
    the order of ``first_to_go``, and then the last ones, which is said below. ``about``: by
    heading, what is said of a column that is shown.
    """

    def __init__(
        self,
        columns: Sequence[ListingColumn],
        rows: Iterable[Sequence[Cell]],
        *,
        title: str = "",
        caption: str = "",
        about: Mapping[str, str] = {},
        first_to_go: Sequence[str] = (),
    ) -> None:
        self.columns = columns
        self.rows = [*rows]
        self.title, self.caption, self.about = title, caption, about
        self.first_to_go = first_to_go

    @property
    def names(self) -> list[str]:
        """The headings."""
        return [column.name for column in self.columns]
