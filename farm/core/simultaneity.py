"""Which ends of jobs are simultaneous: rounding must not decide which of them comes first."""

from __future__ import annotations

SAME = 2.0**-40
"""The part of farm time by which the ends of one instant may differ: a microsecond in eleven days.

Each sum on the way to an instant rounds it by up to one part in 2^53, and what is simultaneous on
paper (0.1 + 0.2 s and 0.3 s; 1.4 s of work at rate 1 ÷ 1.4) was added up in different ways.
"""


def latest_same(at: float) -> float:
    """Return the latest instant that counts as this one; both in farm seconds, from 0 on."""
    return at + at * SAME
