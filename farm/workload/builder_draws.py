"""What is drawn of a pool's builders: how long they boot, which boots fail, how long they live.

Each is a function of a builder's number, so that it does not depend on when a builder is requested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from farm.scenario.pools import Losses, Pool
from farm.workload.streams import ByNumber


class BuilderDraws(NamedTuple):
    """By a builder's number; None: it is not drawn."""

    #: seconds beside the pool's boot time
    boot_delay: Callable[[int], float] | None
    #: whether it never takes a job
    fails_to_boot: Callable[[int], bool] | None
    #: seconds that it is present before it is lost
    lifetime: Callable[[int], float] | None


def draws_of(pool: Pool, seed: int) -> BuilderDraws:
    """Return what is drawn of the builders of a pool, each from a stream of its own."""
    boot_delay = None
    if pool.boot_delay is not None:
        quantile = pool.boot_delay.quantile_function()
        boot_delay = ByNumber(quantile, seed, "boot delay", pool.name)

    fails_to_boot = None
    failure_rate = pool.failure_rate
    if failure_rate > 0:
        fails_to_boot = ByNumber(lambda drawn: drawn < failure_rate, seed, "boot", pool.name)

    lifetime = None
    rate = (pool.losses or Losses()).rate
    if rate is not None:
        # as ``random.expovariate`` of the stream
        lifetime = ByNumber(lambda drawn: -math.log(1.0 - drawn) / rate, seed, "loss", pool.name)
    return BuilderDraws(boot_delay, fails_to_boot, lifetime)
