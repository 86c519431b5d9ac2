"""Division as the hardware does it: the rules divide by sizes and averages that may be 0."""

from __future__ import annotations

import math


def ratio(dividend: float, divisor: float) -> float:
    """Return dividend ÷ divisor; by 0 it is an infinity, and 0 ÷ 0 is not a number."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)
