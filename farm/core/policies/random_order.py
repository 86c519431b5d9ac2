"""Random order: a seeded shuffle of all jobs.

The core uses no random generator: the key is a hash of the seed and the job's serial, so the same
seed gives the same order, and a job keeps its place whatever else arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from farm.core.model import Job

_MASK = (1 << 64) - 1


def splitmix64(value: int) -> int:
    """Return a well-mixed 64-bit hash of an integer (the finaliser of the SplitMix64 generator)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def make(seed: int) -> Callable[[Job, float, float, int], float]:
    """Return the key function of this seed."""
    start = splitmix64(seed)

    def key(job: Job, estimate: float, at: float, serial: int) -> float:
        return splitmix64(start ^ serial) / 2.0**64

    return key
