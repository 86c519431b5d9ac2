"""Cells of CSV files: fast columns, and texts for people who open them in a spreadsheet.

As OWASP advises (CSV Injection), such a text is written behind an apostrophe. So are those that
begin with apostrophes before it: each text has one form, and is read back as it was. Numbers
stay numbers.
"""

from __future__ import annotations

from operator import methodcaller

#: how a formula begins, if a spreadsheet removes blanks before it too
FIRST = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def harmless(value: object) -> object:
    """Return a cell that is no formula; what is no text is returned as it is."""
    if isinstance(value, str) and value.lstrip("'").startswith(FIRST):
        return f"'{value}"
    return value


def as_given(text: str) -> str:
    """Return the text of which ``harmless`` made this one."""
    return text[1:] if text[:1] == "'" and text.lstrip("'").startswith(FIRST) else text


def plain_columns(text: str, between: str) -> list[list[str]] | None:
    """Return the columns of a table with their names; None: some cells are quoted, or missing."""
    text = text.replace("\r\n", "\n")
    if '"' in text or "\r" in text or text.startswith("\n"):
        return None
    lines = list(filter(None, text.split("\n")))
    counts = {*map(methodcaller("count", between), lines)}
    if len(counts) > 1:
        return None
    cells, width = between.join(lines).split(between), counts.pop() + 1
    return [cells[place::width] for place in range(width)]
