"""The limits of a pool, and the difference to its present size."""

from __future__ import annotations

import math

NEVER = -1.0
"""Instant of what has not happened."""
FOREVER = math.inf
EARLY = 1e-3
"""Seconds by which stated instants come early, so that no rounding makes them late."""
MOST = 1e15
"""No number of builders, slots or jobs is larger."""


def whole(number):
    """Return the number rounded up, and ``MOST`` at most."""
    return math.ceil(min(number * 1.0, MOST))


def limited(value, options):
    """Return the value rounded up to whole builders, within the limits."""
    return math.ceil(min(max(options.least * 1.0, value), options.most * 1.0))


def builders_for(slots_wanted, look):
    """Return how many builders offer at least that many slots."""
    return max(0, whole(slots_wanted / look.slots))


def towards(look, options, wanted, stoppable):
    """Return the plan to have ``wanted`` builders, of which some may be stopped.

    What is present (booting included) counts as had; what is going away still takes up room.
    """
    desired = limited(wanted, options)
    missing = desired - look.present
    start = max(0, min(missing, options.most - look.total))
    return desired, start, max(0, min(-missing, stoppable))
