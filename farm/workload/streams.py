"""Named, seeded streams of random numbers: the only randomness of a workload.

Each kind of draw has a separate stream, so that changing one part of a scenario does not reshuffle
another, and each value costs exactly one uniform number of its stream (inverse transform), so that
the n-th job keeps its random numbers when a parameter changes: compared scenarios see common random
numbers.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")


def stream(seed: int, *names: str | int) -> random.Random:
    """Return the random stream of this name, such as ``stream(1, "workload", 0, "kind")``.

    The same seed and names give the same stream on every machine and Python version; different
    ones give independent streams (SHA-256 of both seeds it).
    """
    text = "\x1f".join([str(seed), *(f"{type(name).__name__}:{name}" for name in names)])
    seeded = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    return random.Random(seeded)  # noqa: S311 - it must be repeatable


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
