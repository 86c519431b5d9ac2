"""The score of an invocation: (executing slots + 1) · 2^(priority/100), the smallest goes first.

``accounting`` says how the scores of siblings are used.
"""

from __future__ import annotations

import math
from functools import lru_cache

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
