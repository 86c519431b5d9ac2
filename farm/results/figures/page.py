"""The report page: one self-contained file, which also holds the numbers as JSON."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec

from farm.core.errors import file_access
from farm.results.figures.chart import Chart, page_colours
from farm.results.recorded_run import now
from farm.results.run_directory import this_version
from farm.whole_files import write_whole

_CSS = """
:root{color-scheme:light dark}
@media print{:root{color-scheme:light} .hint,.card,figure button{display:none}
figure{break-inside:avoid}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:56rem;padding:1rem;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin-bottom:.2rem} .under{margin-top:0;color:var(--dim);font-size:.9rem}
 h2{font-size:1.2rem;margin-top:2rem} figure{margin:.6rem 0}
.wide{overflow-x:auto} .wide svg{display:block;width:100%;max-width:30rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,25rem),1fr));
gap:0 1.5rem}
figure svg{font-family:system-ui,sans-serif} figure:focus{outline:1px dotted var(--dim)}
.hint{color:var(--dim);font-size:.8rem;grid-column:1/-1}
.card{position:fixed;z-index:1;pointer-events:none;max-width:min(24rem,90vw);padding:.3rem .6rem;
background:var(--page);border:1px solid var(--dim);border-radius:4px;font-size:.8rem}
.card div{display:flex;gap:.5rem;align-items:baseline} .card span{flex:1}
.card i{width:.6rem;height:.6rem;border-radius:50%}
figure{position:relative} figure button{position:absolute;top:0;right:0;font-size:.8rem}
.over text{paint-order:stroke;stroke:var(--page);stroke-width:3px}
.marks{pointer-events:none} .marks line{stroke:var(--dim);stroke-width:.6}
.marks .chosen{fill:var(--c0);opacity:.15}
.told section:first-of-type>p:first-of-type{font-weight:600}
table{border-collapse:collapse;margin:1rem 0;font-size:.9rem} th,td{padding:.2rem .7rem .2rem 0;
text-align:right;border-bottom:1px solid var(--grid);white-space:pre-line;overflow-wrap:normal}
th:first-child,td:first-child,.words td,.words th{text-align:left}
th{white-space:normal;vertical-align:bottom} h3{font-size:1rem}
.words td{white-space:normal;vertical-align:top} @media print{table{font-size:.75rem}}
@media (max-width:34rem){table,tbody,tr{display:block} tr+tr{margin-top:.8rem}
tr:first-child{display:none} td{display:flex;justify-content:space-between;gap:1rem;padding:.1rem 0;
overflow-wrap:anywhere}
td::before{content:attr(data-name);color:var(--dim);white-space:normal;text-align:left;
overflow-wrap:break-word;max-width:60%}
td:first-child{font-weight:600} td:first-child::before{content:none}}
"""
#: nothing may be loaded, and nothing run but the charts' script, whatever names a run contains
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
)


class PageTable(NamedTuple):
    """A table of texts: its title (none: empty), the names of its columns, and its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: its cells are sentences
    words: bool = False
    #: shown on demand
    folded: bool = False

    @property
    def html(self) -> str:
        """The table with its title."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = [f"<tr>{head}</tr>", *(_row(self.columns, row) for row in self.rows)]
        kind, title = "wide words" if self.words else "wide", escape(self.title)
        table = f'<div class="{kind}"><table>{"".join(rows)}</table></div>'
        if self.folded:
            return f"<details><summary>{title}</summary>{table}</details>"
        return f"<h3>{title}</h3>{table}" if title else table


class PageSection(NamedTuple):
    """A section of the page: a heading, sentences, charts, tables."""

    title: str
    words: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[PageTable] = ()


def page(
    title: str,
    sections: Iterable[PageSection],
    numbers: Mapping[str, object],
    refresh: float | None = None,
    under: str = "",
) -> str:
    """Return the page; ``numbers`` are JSON, by the id of the element that holds them.

    ``refresh``: a browser loads the page again after this many real seconds. ``under`` stands below
    the title, where the page is from, and the first words are the answer; else it is the version
    and the day.
    """
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh:g}">'
    islands = [
        f'<script type="application/json" id="{name}">{_island(value)}</script>'
        for name, value in numbers.items()
    ]
    begin = '<body class="told">' if under else "<body>"
    under = under or made_by()
    body = "\n".join(_section(section) for section in sections)
    script = files("farm.results.figures").joinpath("charts.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">{again}'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY.format(digest=digest)}">'
        f"<title>{escape(title)}</title><style>{page_colours()}{_CSS}</style></head>\n{begin}"
        f'<h1>{escape(title)}</h1>\n<p class="under">{escape(under)}</p>{body}\n'
        f"{''.join(islands)}\n<script>{script}</script></body></html>\n"
    )


def made_by(version: str = "", day: str = "") -> str:
    """Return the version that made something, and the day; by default this one's, today."""
    return f"build-farm-emulator {version or this_version()}, {day or now()[:10]}"


def write_page(path: Path, text: str) -> None:
    """Write a page, which a browser never finds half written. Raises InputError on failure."""
    with file_access(path):
        write_whole(path, text.encode())


def _row(names: Sequence[str], texts: Sequence[str]) -> str:
    """Return a row, each cell with its column's name, for windows too narrow for columns."""
    cells = [
        f'<td data-name="{escape(name)}">{escape(text).replace(" %", "&nbsp;%")}</td>'
        for name, text in zip(names, texts, strict=True)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _section(section: PageSection) -> str:
    heading = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    words = "".join(f"<p>{escape(line)}</p>" for line in section.words)
    figures = "".join(map(_figure, section.charts))
    figures = f'<div class="charts">{figures}</div>' if figures else ""
    return (
        f"<section>{heading}{words}{figures}{''.join(one.html for one in section.tables)}</section>"
    )


def _figure(chart: Chart) -> str:
    """Return a chart with the values that the page shows under the pointer."""
    picture, values = chart.themed, chart.values
    beside = ""
    if values is not None:
        beside = f'<script type="application/json">{_island(values)}</script>'
    return f'<figure class="wide">{picture}{beside}</figure>'


def _island(value: object) -> str:
    """Return JSON that is safe inside a script element."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
