"""The strategy of Jenkins' NodeProvisioner."""

from __future__ import annotations

import math

from farm.core.pools.formulas.sizing import builders_for, towards


def moved(average, present, decay):
    """Return an average after the present value."""
    return average * decay + present * (1 - decay)


def plan(look, options, began_at, waiting, available, planned):
    """Return the plan, when the first was made, and the averages."""
    if began_at < 0.0:
        began_at = look.at
    waiting = moved(waiting, look.waiting_jobs, options.decay)
    available = moved(available, look.free_slots, options.decay)
    planned = moved(planned, look.booting * look.slots, options.decay)
    slots = 0
    if look.at - began_at >= options.initial_delay:
        slots = slots_to_start(look, options, waiting, available, planned)
    wanted = look.present + builders_for(slots, look)
    desired, start, stop = towards(look, options, wanted, 0)
    return desired, start, stop, began_at, waiting, available, planned


def slots_to_start(look, options, waiting, available, planned):
    """Return the excess workload in whole slots."""
    total, coming = look.joined * look.slots, look.booting * look.slots
    nothing_at_all = total + coming == 0
    if max(look.free_slots * 1.0, available) >= options.margin and not nothing_at_all:
        return 0
    queue = min(look.waiting_jobs * 1.0, waiting)
    if nothing_at_all and look.waiting_jobs:
        # the original requests one at once when there is none at all
        queue = max(queue, 1.0)
    excess = queue - max(coming * 1.0, planned)
    apart = options.margin0 - options.margin
    m = options.margin + apart * math.pow(options.margin_decay, total * 1.0)
    return math.floor(excess + m) if excess > 1 - m else 0
