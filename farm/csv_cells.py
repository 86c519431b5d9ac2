"""Texts in CSV files that people open in a spreadsheet, which runs what looks like a formula.

As OWASP advises (CSV Injection), such a text is written behind an apostrophe. So are those that
begin with apostrophes before it: each text has one form, and is read back as it was. Numbers
stay numbers.
"""

from __future__ import annotations

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
