"""How a listing is laid out on a terminal, or written as HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from farm.terminal.plain_tables import GAP
from farm.terminal.plain_text import MAX_MESSAGE, plain
from farm.terminal.tables import Cell, Listing, ListingColumn, Parts, Styled

#: minimum width of a folded column: with others that can be left out, and without
FOLDED, NARROW = 24, 12


class Layout:
    """The cells of a listing, as they are shown."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._columns = listing.columns
        self._rows = [
            [_cell(value, column) for value, column in zip(row, self._columns, strict=True)]
            for row in listing.rows
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
        table, least, shown = self._table(options.max_width)
        # a terminal below the minimum width cuts the last columns, not all of them
        wide = options.update_width(max(least, options.max_width))
        for line in console.render_lines(table, wide, pad=False):
            yield from _without_trailing_blanks(line)
            yield Segment.line()
        remarks = [about for name, about in listing.about.items() if name in shown]
        lines = ["; ".join(filter(None, [listing.caption, *remarks]))]
        if gone := dict.fromkeys(name for name in self._listing.names if name not in shown):
            lines.append(f"left out for want of width: {', '.join(gone)} (a pipe has all: | cat)")
        for remark in "\n".join(filter(None, lines)).splitlines():
            yield Text(plain(remark, MAX_MESSAGE), "dim italic")

    def _table(self, width: int) -> tuple[Table, int, set[str]]:
        """Return the table for this width, the least width that it can take, and what is shown."""
        names = self._listing.names
        places = list(range(len(names)))

        def needed(folded: int = FOLDED) -> int:
            return sum(self._claim(place, names[place], folded) + GAP for place in places) - GAP

        if needed() > width:
            names = [name.replace(" ", "\n") for name in names]
        for gone in self._listing.first_to_go:
            if needed() > width:
                places = [place for place in places if self._columns[place].name != gone]
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
        table.show_header = any(names)
        for place in places:
            column = self._columns[place]
            table.add_column(
                Text(names[place]),
                justify="right" if column.right else "left",
                no_wrap=not column.folds and place > 0,
                overflow="fold",
                min_width=self._claim(place, names[place], NARROW),
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in places))
        return table, needed(NARROW), {self._columns[place].name for place in places}

    def _claim(self, place: int, name: str, folded: int) -> int:
        """Return the width of a column, or how far it may be folded."""
        widest = max((row[place].cell_len for row in self._rows), default=0)
        if self._columns[place].folds or (place == 0 and folded == NARROW):
            widest = min(widest, folded)
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


def html_of(what: object) -> str:
    """Return tables and texts as HTML, for notebooks; colours are those of the terminal."""
    if isinstance(what, Parts):
        return "".join(map(html_of, what))
    if isinstance(what, Styled):
        what = what.__rich__()
    if isinstance(what, Listing):
        return what.html
    return f"<p>{_span(Text(what) if isinstance(what, str) else what)}</p>" if what else ""


def _span(what: object) -> str:
    text = what if isinstance(what, Text) else Text(str(what))
    style = Style.parse(str(text.style) or "none")
    looks = ["font-weight:bold"] * bool(style.bold) + ["opacity:.6"] * bool(style.dim)
    if style.color is not None:
        looks.append(f"color:{style.color.name}")
    inner = escape(text.plain)
    return f'<span style="{";".join(looks)}">{inner}</span>' if looks else inner
