"""A high quantile of the recent demand, as Buildbarn's bb-autoscaler queries it."""

from __future__ import annotations

import math

from farm.core.pools.formulas.sizing import towards


def jobs_of(look):
    """Return the jobs in the system."""
    return look.waiting_jobs + look.running_jobs + look.draining_jobs


def quantile(ordered, begin, count, share):
    """Return the quantile with linear interpolation between order statistics."""
    rank = share * (count - 1)
    low = math.floor(rank)
    below, above = ordered[begin + low], ordered[begin + min(low + 1, count - 1)]
    return below + (above - below) * (rank - low)


def plan(look, options, ordered, begin, count):
    """Return the plan for numbers of jobs, the smallest first; and the quantile."""
    demand = quantile(ordered, begin, count, options.quantile)
    wanted = (math.ceil(demand) + look.slots - 1) // look.slots
    desired, start, stop = towards(look, options, wanted, look.joined)
    return desired, start, stop, demand
