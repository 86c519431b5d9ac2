"""A study as one self-contained page: sections of paragraphs, charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from farm.results.figures.chart import Chart
from farm.results.figures.lines import Figure
from farm.results.report import page as report

Points = Sequence[tuple[float, float]]


class Table(msgspec.Struct, frozen=True):
    """A table: its title, the names of its columns, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: its cells are sentences
    words: bool = False
    #: shown when it is asked for
    folded: bool = False

    def html(self) -> str:
        """Return it with its title."""
        table, title = report.table(self.columns, self.rows, words=self.words), escape(self.title)
        if self.folded:
            return f"<details><summary>{title}</summary>{table}</details>"
        return f"<h3>{title}</h3>{table}"


class Section(msgspec.Struct, frozen=True):
    """Paragraphs, charts and tables under a heading."""

    title: str
    words: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


def drawn(
    title: str, across: str, up: str, lines: Mapping[str, Points], ticks: Sequence[str] = ()
) -> Chart:
    """Draw lines from zero up; ``ticks`` are the names of 0, 1, 2, … across."""
    return Figure(title, lines, (across, up), ticks=ticks).draw()


def write_page(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page, its tables in it as JSON; raises InputError if that cannot be done."""
    parts = [
        report.Section(one.title, one.words, one.charts, [table.html() for table in one.tables])
        for one in sections
    ]
    report.write_page(path, report.page(title, parts, {"tables": tables(sections)}))


def tables(sections: Sequence[Section]) -> dict[str, list[dict[str, str]]]:
    """Return all tables by their titles, a dict for each row."""
    return {
        f"{section.title}: {one.title}": [
            dict(zip(one.columns, row, strict=True)) for row in one.rows
        ]
        for section in sections
        for one in section.tables
    }
