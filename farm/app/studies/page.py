"""A study as one self-contained HTML page: sections of paragraphs, figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import msgspec

from farm.core.errors import InputError
from farm.results.figures.lines import Figure, drawing

_STYLE = (
    "body{max-width:62em;margin:2em auto;padding:0 1em;font-family:sans-serif;line-height:1.45}"
    "figure{margin:1em 0;max-width:48em}table{border-collapse:collapse;font-size:90%}"
    "td,th{padding:.2em .6em;border:1px solid #ccc;text-align:right;vertical-align:top}"
    "td:first-child,th:first-child,.words td,.words th{text-align:left}"
    "caption{text-align:left;padding:.4em 0;font-weight:bold}"
    "h2{border-top:1px solid #ccc;padding-top:1em;margin-top:2em}summary{cursor:pointer}"
)


class Table(msgspec.Struct, frozen=True):
    """A table: its title, the names of its columns, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: its cells are sentences
    words: bool = False
    #: shown when it is asked for
    folded: bool = False


class Section(msgspec.Struct, frozen=True):
    """Paragraphs, figures and tables under a heading, in order."""

    title: str
    parts: Sequence[str | Figure | Table]


def tables(sections: Sequence[Section]) -> list[Table]:
    """Return all tables, in order."""
    return [part for one in sections for part in one.parts if isinstance(part, Table)]


def figures(sections: Sequence[Section]) -> list[Figure]:
    """Return all figures, in order."""
    return [part for one in sections for part in one.parts if isinstance(part, Figure)]


def write_page(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page; raises InputError if that cannot be written."""
    links = (f"<li><a href='#s{n}'>{escape(one.title)}</a>" for n, one in enumerate(sections))
    parts = [
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'>",
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}</h1><ul>{''.join(links)}</ul>",
    ]
    for number, section in enumerate(sections):
        parts.append(f"<h2 id='s{number}'>{escape(section.title)}</h2>")
        parts.extend(map(_html, section.parts))
    try:
        path.write_text("\n".join([*parts, "</html>\n"]), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out: cannot write {path}: {error.strerror}") from None


def _html(part: str | Figure | Table) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, Figure):
        return f"<figure>{drawing(part)}</figure>"
    head = "".join(f"<th>{escape(name)}</th>" for name in part.columns)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in part.rows
    )
    title, kind = escape(part.title), " class='words'" if part.words else ""
    if part.folded:
        table = f"<table{kind}><tr>{head}</tr>\n{rows}</table>"
        return f"<details><summary>{title}</summary>{table}</details>"
    return f"<table{kind}><caption>{title}</caption><tr>{head}</tr>\n{rows}</table>"
