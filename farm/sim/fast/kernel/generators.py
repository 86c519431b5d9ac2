"""The first numbers of generators, many of which are begun at a time; compiled.

Python's generator is the Mersenne Twister. To begin one takes 1,247 steps, each of which waits for
the one before. So each step is made for several generators, one after the other.
Source: Matsumoto and Nishimura, mt19937ar.c (``init_by_array`` and ``genrand_res53``).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from farm.sim.fast.kernel.heaps import Array

WORDS = 624
"""Of the state of a generator."""
LANES = 16
"""Generators that are begun together."""
KEY_WORDS = 8
"""Of a key."""
MASK = 0xFFFFFFFF
"""The bits of a word."""


def first_numbers(
    keys: Annotated[Array, np.int64, 2],
    initial: Annotated[Array, np.int64],
    state: Annotated[Array, np.int64],
    numbers: Annotated[Array, np.float64],
):
    """Write the first number of each generator, a multiple of ``LANES`` of them.

    A key is a row of words, the lowest first and the highest not 0. ``initial``: the state that
    keys are mixed into; ``state``: room for those of ``LANES`` generators.
    """
    last = (WORDS - 1) * LANES
    for group in range(len(numbers) // LANES):
        first = group * LANES
        for lane in range(LANES):
            state[lane] = initial[0]
        for place in range(1, WORDS):
            here = place * LANES
            word = (place - 1) % KEY_WORDS
            for lane in range(LANES):
                mixed = initial[place] ^ spread(state[here - LANES + lane], 1664525)
                state[here + lane] = (mixed + keys[first + lane, word] + word) & MASK
        word = (WORDS - 1) % KEY_WORDS
        for lane in range(LANES):  # the first word follows the last one
            mixed = state[LANES + lane] ^ spread(state[last + lane], 1664525)
            state[LANES + lane] = (mixed + keys[first + lane, word] + word) & MASK
        for place in range(2, WORDS):
            here = place * LANES
            for lane in range(LANES):
                mixed = state[here + lane] ^ spread(state[here - LANES + lane], 1566083941)
                state[here + lane] = (mixed - place) & MASK
        for lane in range(LANES):
            mixed = state[LANES + lane] ^ spread(state[last + lane], 1566083941)
            second = (mixed - 1) & MASK
            third = state[2 * LANES + lane]
            high = word_made(1 << 31, second, state[397 * LANES + lane])
            low = word_made(second, third, state[398 * LANES + lane])
            numbers[first + lane] = ((high >> 5) * 67108864.0 + (low >> 6)) / 9007199254740992.0


def spread(word, factor):
    """Return what a word of the state does to the next one."""
    return (word ^ (word >> 30)) * factor


def word_made(word, following, later):
    """Return the word that a generator makes of three words of its state."""
    joined = (word & (1 << 31)) + (following & 0x7FFFFFFF)
    made = later ^ (joined >> 1) ^ ((joined & 1) * 0x9908B0DF)
    made = made ^ (made >> 11)
    made = made ^ ((made << 7) & 0x9D2C5680)
    made = made ^ ((made << 15) & 0xEFC60000)
    return made ^ (made >> 18)
