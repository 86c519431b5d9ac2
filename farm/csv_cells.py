"""Cells of CSV files: fast columns, and texts for people who open them in a spreadsheet.

As OWASP advises (CSV Injection), such a text is written behind an apostrophe. So are those that
begin with apostrophes before it: each text has one form, and is read back as it was. Numbers
stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from operator import itemgetter

#: how a formula begins, if a spreadsheet removes blanks before it too
FIRST = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def harmless(value: object) -> object:
    """Return a cell that is no formula; what is no text is returned as it is."""
    if isinstance(value, str) and value.lstrip("'").startswith(FIRST):
        return f"'{value}"
    return value


def text_cells(texts: Sequence[str]) -> Sequence[str]:
    """Return texts as they are written between commas: harmless, and quoted where they must be.

    Most texts need neither; all of them together are searched for what would need it.
    """
    text = "\n".join(texts)
    plain = text.count("\n") == len(texts) - 1 and not any(mark in text for mark in _QUOTED_FOR)
    if plain and _TO_ESCAPE.isdisjoint(map(_first_letter, texts)):
        return texts
    return list(map(_text_cell, texts))


def _text_cell(text: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow((harmless(text), ""))
    return line.getvalue().removesuffix(",\n")


_first_letter = itemgetter(slice(0, 1))
#: marks for which csv puts a cell in quotes, beside new lines
_QUOTED_FOR = ('"', ",", "\r")
#: how a text begins that may have to be written behind an apostrophe
_TO_ESCAPE = frozenset(FIRST) | {"'"}


def as_given(text: str) -> str:
    """Return the text of which ``harmless`` made this one."""
    return text[1:] if text[:1] == "'" and text.lstrip("'").startswith(FIRST) else text
