"""Sorting what is too long to be sorted at one go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])

#: of so many entries one is looked at to find out where a portion begins
SAMPLED = 50


def merged_in_portions(portions: list[list[T]], size: int) -> Iterator[list[T]]:
    """Yield the entries of sorted portions in order, in new portions of about so many.

    Each is sorted by itself: the entries between two marks, which a sample of all entries gives.
    """
    if len(portions) < 2:
        yield from portions
        return
    sample = sorted(chain.from_iterable(portion[::SAMPLED] for portion in portions))
    apart = max(1, size // SAMPLED)
    begins = [0] * len(portions)
    for mark in sample[apart::apart]:
        ends = [bisect_left(p, mark, begin) for p, begin in zip(portions, begins, strict=True)]
        yield _cut(portions, begins, ends)
        begins = ends
    yield _cut(portions, begins, [len(portion) for portion in portions])


def _cut(portions: list[list[T]], begins: list[int], ends: list[int]) -> list[T]:
    cuts = zip(portions, begins, ends, strict=True)
    return sorted(chain.from_iterable(portion[begin:end] for portion, begin, end in cuts))
