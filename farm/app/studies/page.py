"""A study as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from pathlib import Path

from farm.app.studies.thesis import Cells, Study
from farm.core.errors import InputError
from farm.results.figures.lines import drawing

_STYLE = (
    "body{max-width:60em;margin:2em auto;font-family:sans-serif}table{border-collapse:collapse}"
    "td,th{padding:.2em .6em;border:1px solid #ccc;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
)


def write_page(path: Path, found: Study) -> None:
    """Write the page; raises InputError for a name that is not .html, or cannot be written."""
    if path.suffix != ".html":
        raise InputError(f"--out: found {path.name!r}; allowed: a name that ends in .html")
    title = "The thesis's experiments, played again"
    text = (
        f"{title}: {found.runs} job sets, the same for every policy and size. Service times are "
        "Pareto(1.161), whose variance is infinite: a mean, or a standard deviation, says more "
        "about the longest job that was drawn than about a policy. So the figures are medians, and "
        "policies are compared by the geometric mean of their ratios on the same jobs."
    )
    parts = [
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'>",
        f"<title>{title}</title><style>{_STYLE}</style>",
        f"<h1>{title}</h1><p>{escape(text)}</p>",
        *(f"<figure>{drawing(figure)}</figure>" for figure in found.figures),
        *map(_table, found.tables),
        "</html>\n",
    ]
    try:
        path.write_text("\n".join(parts), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out: cannot write {path}: {error.strerror}") from None


def _table(table: Cells) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>\n{rows}</table>"
