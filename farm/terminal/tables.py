"""Tables on a terminal and in pipes: columns without rules, as wide as their content.

Where the terminal is too narrow, first the headings are broken between their words, then columns
that may be folded are, and then columns are left out. Nothing is folded in a file or a pipe.
What lays them out is imported when they are shown: it takes 50 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from farm.terminal.plain_text import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text

    from farm.terminal.layout import Layout

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


class Listing:
    """A table, whose texts are escaped.

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

    @property
    def _layout(self) -> Layout:
        from farm.terminal.layout import Layout  # noqa: PLC0415 - rich, for what is shown

        return Layout(self)

    @property
    def html(self) -> str:
        """The table as HTML."""
        return self._layout.html

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._layout.lines(console, options)


class Styled:
    """A text in parts, each in a style of rich's, which makes it when it is shown in colours."""

    def __init__(self, *parts: tuple[str, str]) -> None:
        self.parts = parts

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.parts)

    def __rich__(self) -> Text:
        from rich.text import Text  # noqa: PLC0415 - as a layout is

        if len(self.parts) == 1:
            return Text(*self.parts[0])
        return Text.assemble(*self.parts)


class Parts(tuple[object, ...]):
    """What is shown one below the other."""

    __slots__ = ()

    def __rich_console__(self, *_: object) -> Iterator[RenderableType]:
        yield from self  # type: ignore[misc]


def styled(text: str, style: str = "") -> Styled:
    """Return a text in a style."""
    return Styled((text, style))


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


def as_html(what: object) -> str:
    """Return tables and texts as HTML, for notebooks; colours are those of the terminal."""
    from farm.terminal.layout import html_of  # noqa: PLC0415 - as a layout is

    return html_of(what)
