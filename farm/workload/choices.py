"""Weighted choices, drawn with one uniform number each."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")


def chooser(weights: Mapping[T, float], rng: random.Random) -> Callable[[], T]:
    """Return a function that draws one of the values, in proportion to their weights.

    A single value draws nothing from the stream.
    """
    values = [value for value, weight in weights.items() if weight > 0]
    if len(values) == 1:
        only = values[0]
        return lambda: only
    sums = list(accumulate(weight for weight in weights.values() if weight > 0))
    total, last, draw = sums[-1], len(values) - 1, rng.random
    return lambda: values[min(bisect_right(sums, draw() * total), last)]
