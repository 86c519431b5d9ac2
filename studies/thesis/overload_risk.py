"""The risk of overload: the slowdown to expect on a builder whose slots are filled at random.

Equations 4.2 and 4.3 of the thesis on CI scheduling policies, with two misprints corrected:

* eq. 4.2 prints (p - 1)^(n-k); a binomial probability has (1 - p)^(n-k);
* eq. 4.3 sums from k = 1, which omits the time in which no heavy job runs: one slot with 20 %
  heavy jobs would have "slowdown" 0.2. The sum begins at k = 0, so f(1, 0.2) = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from farm.core.errors import InputError

SlowdownByCount = Callable[[int], float]
"""From the number of heavy jobs on a builder to the slowdown of every job there."""


def heavy_job_probability(count: int, slots: int, heavy_fraction: float) -> float:
    """Return the chance that ``count`` of the builder's ``slots`` hold a heavy job (eq. 4.2).

    Each slot holds a heavy job with probability ``heavy_fraction``, independently: jobs are drawn
    with replacement from a randomly ordered queue.
    """
    if heavy_fraction in (0.0, 1.0):
        return 1.0 if count == slots * heavy_fraction else 0.0
    # in logarithms, because C(n, k) overflows a float at about a thousand slots
    ways = math.lgamma(slots + 1) - math.lgamma(count + 1) - math.lgamma(slots - count + 1)
    light = math.log1p(-heavy_fraction) * (slots - count)
    return math.exp(ways + count * math.log(heavy_fraction) + light)


def expected_slowdown(slots: int, heavy_fraction: float, slowdown: SlowdownByCount) -> float:
    """Return f(n, p), the expected slowdown with n full slots, a share p of them heavy (eq. 4.3).

    ``slowdown`` is any law, such as ``SlowdownTable(...).slowdown``. Raises InputError if there
    is no slot or the fraction is not between 0 and 1.
    """
    if slots < 1:
        raise InputError(f"slots: found {slots}; expected at least 1")
    if not 0 <= heavy_fraction <= 1:
        raise InputError(f"heavy fraction: found {heavy_fraction:g}; expected 0 to 1")
    return math.fsum(
        slowdown(count) * heavy_job_probability(count, slots, heavy_fraction)
        for count in range(slots + 1)
    )
