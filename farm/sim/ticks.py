"""When a provisioner plans: at multiples of its interval, some of them skipped."""

from __future__ import annotations

from math import floor


def first_tick(ticked_at: float, interval: float, wanted: float) -> float:
    """Return the first tick after the one at ``ticked_at`` that is not before ``wanted``.

    ``farm.sim.fast`` compiles it.
    """
    tick = ticked_at + interval
    if interval == floor(interval) and tick == floor(tick) and tick < wanted:
        tick += floor((wanted - tick) / interval) * interval  # exact, as sums of integers are
    while tick < wanted:  # other sums round: add up in the same order as the ticks
        tick += interval
    return tick
