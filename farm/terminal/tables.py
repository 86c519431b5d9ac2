"""Tables on a terminal and in pipes: columns without rules, as wide as their content.

Where the terminal is too narrow, first the headings are broken between their words, then columns
that may be folded are, and then columns are left out. Nothing is folded in a file or a pipe.
What lays them out is imported when they are shown: it takes 50 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from farm.terminal.cells import Cell, ListingColumn, Styled, TableContent, styled
from farm.terminal.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from farm.terminal.table_layout import Layout


class Listing(TableContent):
    """A table, whose texts are escaped, as it is shown."""

    @property
    def _layout(self) -> Layout:
        from farm.terminal.table_layout import Layout  # noqa: PLC0415 - rich, for what is shown

        return Layout(self)

    @property
    def html(self) -> str:
        """The table as HTML."""
        return self._layout.html

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._layout.lines(console, options)


class Parts(tuple[object, ...]):
    """What is shown one below the other."""

    __slots__ = ()

    def __rich_console__(self, *_: object) -> Iterator[RenderableType]:
        yield from self  # type: ignore[misc]


def group(*parts: object) -> Parts:
    """Return what is shown one below the other."""
    return Parts(parts)


def story(rows: Iterable[tuple[str, object]]) -> Listing:
    """Return a table of names and values."""
    return Listing(
        (ListingColumn(""), ListingColumn("", folds=True)),
        [(styled(plain(name), "bold"), _of_story(value)) for name, value in rows],
    )


def _of_story(value: object) -> Cell:
    if isinstance(value, Styled) or hasattr(value, "__rich_console__"):
        return value  # type: ignore[return-value]
    return styled(plain(value))


def as_html(shown: object) -> str:
    """Return tables and texts as HTML, for notebooks; colours are those of the terminal."""
    from farm.terminal.table_layout import paragraph  # noqa: PLC0415 - as a layout is

    if isinstance(shown, Parts):
        return "".join(map(as_html, shown))
    if isinstance(shown, Listing):
        return shown.html
    return paragraph(shown) if shown else ""
