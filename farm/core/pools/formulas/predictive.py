"""The curve of demand that was learned, and what it requires."""

from __future__ import annotations

import math

from farm.core.pools.formulas.sizing import builders_for, towards, whole

UNKNOWN = -1.0
"""Demand of a part of the period that no one has seen."""


def parts_of(options):
    """Return how many parts the period has."""
    return whole(options.period / options.step)


def part_at(at, options):
    """Return the part of the period of an instant."""
    return min(math.floor(at % options.period / options.step), parts_of(options) - 1)


def learned(known, mean, options):
    """Return the demand of a part after a period in which it was ``mean``; if it is known."""
    return mean if known < 0.0 else known + options.rate * (mean - known)


def plan(look, options, curve, begin):
    """Return the plan for the present and what is ahead; ``curve`` from ``begin`` on, by part."""
    forecast = 0.0
    for number in range(1 + whole(options.ahead / options.step)):
        place = part_at(look.at + min(number * options.step, options.ahead), options)
        forecast = max(forecast, curve[begin + place])
    demand = look.waiting_jobs + look.running_jobs
    wanted = builders_for(max(demand * 1.0, options.headroom * forecast - look.draining_jobs), look)
    desired, start, stop = towards(look, options, wanted, look.idle)
    return desired, start, stop, forecast
