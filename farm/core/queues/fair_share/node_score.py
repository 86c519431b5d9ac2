"""The order of an invocation's children: by fair share, then by turns.

The smallest (executing slots + 1) · 2^(priority/100) goes first.
"""

from __future__ import annotations

import math
from functools import lru_cache

Instant = tuple[float, int]
"""A time and a running number, which orders what happens at the same time."""

Urgency = tuple[int, int, float, Instant, int]

_BASE = 2**0.01
#: b^100 is 2 in exact arithmetic; in binary64 it is slightly more, and that decides between "two
#: slots at priority 0" and "one at priority 100" (the more urgent one wins)
_PER_HUNDRED = _BASE**100 / 2


def weight(priority: int) -> tuple[int, float]:
    """Return b^priority as (n, x): 2^n · x, with x near 1, so that no priority overflows."""
    hundreds, rest = divmod(priority, 100)
    return hundreds, float(_BASE**rest * _PER_HUNDRED**hundreds)


@lru_cache(maxsize=65536)
def score(executing: int, priority: int) -> tuple[int, float]:
    """Return (executing + 1) · 2^(priority/100) as a pair that compares like that number.

    ``priority`` is any int32; smaller is more urgent. Equal priorities with equal counts are
    exactly equal. The smaller score goes first.
    """
    hundreds, factor = weight(priority)
    mantissa, exponent = math.frexp((executing + 1) * factor)
    return hundreds + exponent, mantissa


def urgency(level: int, priority: int, executing: int, started: Instant, created: int) -> Urgency:
    """Return the key that sorts siblings with waiting jobs, the next one first.

    Static level, then score, then least recently started, then oldest node.
    """
    return (-level, *score(executing, priority), started, created)


#: this many leading items of an urgency express fairness; the rest makes siblings take turns
TIE = 3
