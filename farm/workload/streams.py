"""Named, seeded streams of random numbers: the only randomness of a workload.

Each kind of draw has a separate stream, so that changing one part of a scenario does not reshuffle
another, and each value costs exactly one uniform number of its stream (inverse transform), so that
the n-th job keeps its random numbers when a parameter changes: compared scenarios see common random
numbers.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from farm.columns import Coded, Floats, zeros
from farm.scenario.distributions import Capped, Interpolated, Memoryless, Quantile

#: numbers of a stream that are drawn at a time by NumPy's generator: 14 ns each, else 22
MANY = 1 << 15

T = TypeVar("T")


def stream(seed: int, *names: str | int) -> random.Random:
    """Return the random stream of this name, such as ``stream(1, "workload", 0, "kind")``.

    The same seed and names give the same stream on every machine and Python version; different
    ones give independent streams (SHA-256 of both seeds it).
    """
    seeded = int.from_bytes(hashlib.sha256(_text_of(seed, names).encode()).digest(), "big")
    return random.Random(seeded)  # noqa: S311 - it must be repeatable


def _text_of(seed: int, names: Sequence[str | int]) -> str:
    return "\x1f".join([str(seed), *(f"{type(name).__name__}:{name}" for name in names)])


class ByNumber(Generic[T]):
    """What is drawn for the n-th of something, n from 1 on, from a stream of its own.

    ``value`` makes it of the stream's first number. Who needs it for very many can draw these
    numbers at once, by ``know``.
    """

    def __init__(self, value: Callable[[float], T], seed: int, *names: str | int) -> None:
        self._value = value
        self._seed = seed
        self._names = names
        #: what was drawn at once, for the numbers from 1 on
        self._known: list[T] = []

    def __call__(self, number: int) -> T:
        """Return what is drawn for the n-th."""
        if number <= len(self._known):
            return self._known[number - 1]
        return self._value(stream(self._seed, *self._names, number).random())

    def know(self, most: int, first_numbers: Callable[[bytes], Floats]) -> None:
        """Draw all numbers up to ``most`` that have not been drawn at once.

        ``first_numbers``: given the digests that seed streams, returns the first number of each.
        """
        missing = range(len(self._known) + 1, most + 1)
        begin = _text_of(self._seed, (*self._names, 0)).removesuffix("0")
        digests = [hashlib.sha256(f"{begin}{number}".encode()).digest() for number in missing]
        numbers = first_numbers(b"".join(digests))
        self._known = self._known + list(map(self._value, numbers.tolist()))


class Bits(Protocol):
    """What uniform numbers are made of: a stream, or those of several runs."""

    def randbytes(self, n: int, /) -> bytes:
        """Return the next bytes."""


class OfSeveral(NamedTuple):
    """One stream for each of several runs, asked for the numbers of the jobs of all of them."""

    streams: Sequence[Bits]
    #: the jobs of each run
    counts: Sequence[int]

    def randbytes(self, n: int, /) -> bytes:
        """Return ``n`` bytes: the next of each run, run by run, as many for each of their jobs."""
        each = n // max(1, sum(self.counts))
        pairs = zip(self.streams, self.counts, strict=True)
        return b"".join([one.randbytes(each * count) for one, count in pairs])


def uniforms(rng: Bits, count: int) -> Floats:
    """Return the next numbers that as many calls of ``rng.random()`` would return.

    Each is made of two words of the generator (Matsumoto and Nishimura's ``genrand_res53``).
    """
    if count >= MANY and type(rng) is random.Random:
        return _by_numpy(rng, count)
    words = np.frombuffer(rng.randbytes(8 * count), "<u4").reshape(count, 2)
    high, low = words[:, 0] >> 5, words[:, 1] >> 6
    return (high * 67108864.0 + low) / 9007199254740992.0


def _by_numpy(rng: random.Random, count: int) -> Floats:
    """Return the next numbers of a stream, whose state NumPy's generator takes and gives back."""
    from numpy.random import MT19937, Generator  # noqa: PLC0415 - 10 ms, which few loads need

    version, state, gauss = rng.getstate()
    twister = MT19937(0)
    key = np.array(state[:-1], np.uint32)
    twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": state[-1]}}
    numbers = Generator(twister).random(count)
    key, place = twister.state["state"]["key"], twister.state["state"]["pos"]
    rng.setstate((version, (*key.tolist(), int(place)), gauss))
    return numbers


def logarithms(numbers: Floats) -> Floats:
    """Return ln(1 - u) of each number, to the last bit as ``math.log1p`` (NumPy's differs)."""
    return np.fromiter(map(math.log1p, (-numbers).data), np.float64, len(numbers))


def drawn(quantile: Quantile, numbers: Floats) -> Floats:
    """Return the quantile of each number, to the last bit as one by one."""
    if isinstance(quantile, Capped) and isinstance(quantile.plain, Interpolated):
        return np.minimum(drawn(quantile.plain, numbers), quantile.most)
    if isinstance(quantile, Memoryless):
        return -quantile.mean * logarithms(numbers)
    if isinstance(quantile, Interpolated):
        points = np.array(quantile.points)
        places = numbers * (len(points) - 1)
        index = places.astype(np.int64)
        low = points[index]
        found: Floats = low + (points[index + 1] - low) * (places - index)
        return found
    return np.array(list(map(quantile, numbers.tolist())), np.float64)


def chooser(
    weights: Mapping[Any, float], streams: Callable[[str], Bits], name: str
) -> Callable[[int], Coded]:
    """Return a function that draws a number of values, in proportion to their weights.

    A single value needs no stream.
    """
    values = [value for value, weight in weights.items() if weight > 0]
    if len(values) == 1:
        return lambda count: Coded(zeros(count), values)
    sums = list(accumulate(weight for weight in weights.values() if weight > 0))
    total, last, rng = sums[-1], len(values) - 1, streams(name)

    def draw(count: int) -> Coded:
        places = np.searchsorted(sums, uniforms(rng, count) * total, side="right")
        return Coded(np.minimum(places, last), values)

    return draw
