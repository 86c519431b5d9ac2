"""How a listing is laid out on a terminal, or written as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from farm.terminal.cells import GAP, Cell, ListingColumn, Styled, TableContent
from farm.terminal.plain_text import MAX_MESSAGE, plain

FOLDED = 24
"""A column of text that may be folded is as wide as this, if it has that much text."""
NARROW = 12
"""So wide is the first column at least, if there is no room for it and one other."""


class Layout:
    """The cells of a listing, as they are shown."""

    def __init__(self, listing: TableContent) -> None:
        self._listing = listing
        self._columns = listing.columns
        self._rows = [
            [_cell(value, column) for value, column in zip(row, self._columns, strict=True)]
            for row in listing.rows
        ]
        self._widest = [
            max(cell.cell_len for cell in cells) for cells in zip(*self._rows, strict=True)
        ]

    @property
    def html(self) -> str:
        """The table as HTML."""
        looks = [f"text-align:{'right' if column.right else 'left'}" for column in self._columns]

        def row(cell: str, texts: Iterable[str]) -> str:
            cells = (
                f"<{cell} style={look}>{text}" for look, text in zip(looks, texts, strict=True)
            )
            return f"<tr>{''.join(cells)}"

        head = row("th", map(escape, self._listing.names)) if any(self._listing.names) else ""
        body = "".join(row("td", map(_span, cells)) for cells in self._rows)
        title = f"<caption>{escape(self._listing.title)}</caption>" if self._listing.title else ""
        return f"<table>{title}{head}{body}</table>"

    def lines(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines for a terminal of this width."""
        listing = self._listing
        if listing.title:
            yield Text(plain(listing.title, MAX_MESSAGE), "italic")
        places = self._places(options.max_width)
        names = self._headings(places, options.max_width)
        table = self._table(places, names, options.max_width)
        # a terminal below the minimum width cuts the last column, not all of them
        least = self._width(places, names) - self._claim(0, names[0]) + NARROW
        wide = options.update_width(max(least, options.max_width))
        for line in console.render_lines(table, wide, pad=False):
            yield from _without_trailing_blanks(line)
            yield Segment.line()
        shown = {self._columns[place].name for place in places}
        remarks = [about for name, about in listing.about.items() if name in shown]
        lines = ["; ".join(filter(None, [listing.caption, *remarks]))]
        if gone := self._left_out(places):
            lines.append(f"hidden at this width: {', '.join(gone)} (all columns: | cat)")
        for remark in "\n".join(filter(None, lines)).splitlines():
            yield Text(plain(remark, MAX_MESSAGE), "dim italic")

    def _places(self, width: int) -> list[int]:
        """Return the columns that there is room for."""
        places = list(range(len(self._columns)))
        for group in self._in_order_of_leaving():
            if self._width(places, self._headings(places, width)) <= width or len(places) == 2:
                break
            places = [place for place in places if place not in group]
        return places

    def _in_order_of_leaving(self) -> Iterator[set[int]]:
        """Yield the columns that are left out together: those that are named, then the last."""
        groups: list[set[int]] = []
        for place, column in enumerate(self._columns):
            if column.follows and groups:
                groups[-1].add(place)
            else:
                groups.append({place})
        for name in self._listing.first_to_go:
            named = [place for place, column in enumerate(self._columns) if column.name == name]
            leads = [group for group in groups if min(group) in named]
            yield set(named).union(*leads)
        yield from reversed(groups[1:])

    def _left_out(self, places: Sequence[int]) -> list[str]:
        """Return the names of what is left out, but for what was left out with another column."""
        gone: dict[str, None] = {}
        lead = 0
        for place, column in enumerate(self._columns):
            if not column.follows:
                lead = place
            if place not in places and (place == lead or lead in places):
                gone[column.name] = None
        return [*gone]

    def _headings(self, places: Sequence[int], width: int) -> dict[int, str]:
        """Return the headings of some columns, broken between their words if there is no room."""
        names = {place: self._columns[place].name for place in places}
        if self._width(places, names) > width:
            names = {place: name.replace(" ", "\n") for place, name in names.items()}
        return names

    def _table(self, places: Sequence[int], names: Mapping[int, str], width: int) -> Table:
        """Return the table of some columns for this width."""
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
        table.show_header = any(names.values())
        too_wide = max(0, self._width(places, names) - width)
        for place in places:
            column = self._columns[place]
            least = self._claim(place, names[place])
            most = None
            if place == 0 and too_wide:
                least = most = max(min(least, NARROW), least - too_wide)
            table.add_column(
                Text(names[place]),
                justify="right" if column.right else "left",
                no_wrap=not column.folds and place > 0,
                overflow="fold",
                min_width=least,
                max_width=most,
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in places))
        return table

    def _width(self, places: Sequence[int], names: Mapping[int, str]) -> int:
        """Return the width of some columns, with these headings."""
        return sum(self._claim(place, names[place]) + GAP for place in places) - GAP

    def _claim(self, place: int, name: str) -> int:
        """Return the width of a column, or how far it may be folded."""
        widest = self._widest[place] if self._widest else 0
        if self._columns[place].folds:
            widest = min(widest, FOLDED)
        return max(widest, *(cell_len(word) for word in name.split("\n")))


def _cell(value: Cell, column: ListingColumn) -> Text:
    if isinstance(value, Styled):
        return value.__rich__()
    if isinstance(value, Text):
        return value
    return Text(plain(value, MAX_MESSAGE) if column.folds else plain(value))


def _without_trailing_blanks(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        line[-1] = line[-1]._replace(text=line[-1].text.rstrip())
    return line


def paragraph(shown: object) -> str:
    """Return a text as HTML."""
    if isinstance(shown, Styled):
        shown = shown.__rich__()
    return f"<p>{_span(Text(shown) if isinstance(shown, str) else shown)}</p>"


def _span(what: object) -> str:
    text = what if isinstance(what, Text) else Text(str(what))
    style = Style.parse(str(text.style) or "none")
    looks = ["font-weight:bold"] * bool(style.bold) + ["opacity:.6"] * bool(style.dim)
    if style.color is not None:
        looks.append(f"color:{style.color.name}")
    inner = escape(text.plain)
    return f'<span style="{";".join(looks)}">{inner}</span>' if looks else inner
