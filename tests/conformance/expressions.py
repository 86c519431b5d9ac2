"""Numbers and names that contain ``i``, the turn of a repeat, in Buildbarn's scenarios."""

from __future__ import annotations

import re
from typing import Any

#: a term of a sum, such as ``+2*i`` or ``-3ns``
TERM = re.compile(r"([+-]?)\s*(?:(\d+(?:\.\d+)?)(?:\s*\*?\s*(i))?|(i))\s*(ns)?")
IN_BRACES = re.compile(r"\{([\d\s.*+-]*i[^{}a-z]*)\}")


def filled(value: Any, index: int | None) -> Any:
    """Replace ``{i}``, ``{i+1}`` and the like in all texts."""
    if isinstance(value, str) and index is not None:
        return IN_BRACES.sub(lambda found: f"{number(found[1], index):.15g}", value)
    if isinstance(value, list):
        return [filled(item, index) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, index) for key, item in value.items()}
    return value


def number(value: Any, index: int | None) -> float:
    """Evaluate ``1010+2*i +2ns`` and the like: a sum of numbers and multiples of ``i``."""
    if not isinstance(value, str):
        return float(value)
    terms = [term.strip() for term in re.split(r"(?=[+-])", value)]
    if len(terms) > 1 and not terms[0]:
        del terms[0]  # before the first sign
    return sum(_term(term, value, index) for term in terms)


def _term(term: str, whole: str, index: int | None) -> float:
    found = TERM.fullmatch(term)
    assert found, f"{whole!r}: not a sum of numbers and multiples of i"
    sign, number, times_i, i, ns = found.groups()
    value = float(number or 1) * (-1 if sign == "-" else 1) * (1e-9 if ns else 1)
    if times_i or i:
        assert index is not None, f"{whole!r}: i outside of a repeat"
        value *= index
    return value


def turns(count: int | str) -> range:
    """Return the values of ``i``, at least one, for a number of turns or ``i=0..9``."""
    said = re.fullmatch(r"(?:(?:i\s*=\s*)?(\d+)\s*\.\.\s*)?(\d+)", str(count))
    assert said, f"repeat: n is {count!r}; allowed: 10, 0..9, i=0..9"
    found = range(int(said[2])) if said[1] is None else range(int(said[1]), int(said[2]) + 1)
    assert found, f"repeat: n is {count!r}, so nothing is played"
    return found
