"""What happened is counted and, if its story will be asked for, noted; compiled."""

from __future__ import annotations

import numpy as np

from farm.core.pools.hopeless import PATIENCE
from farm.emulation.agenda import ALARM as ALARM_RANK
from farm.sim.fast.kernel.compiled import compiled, inlined
from farm.sim.fast.kernel.heaps import put
from farm.sim.fast.kernel.layout import (
    ALARM,
    ALARM_THING,
    ALARMS,
    ARRIVALS_OVER,
    BOOTING,
    BUSY,
    EVENTS,
    LAST_EVENT,
    NOTED,
    NOW,
    OPEN,
    SOON_LAST,
    STILL_SINCE,
)


@inlined
def happened(farm, kind, what, builder=-1, slot=0, attempt=0):
    """Count an event, and note it."""
    farm.counts[EVENTS] += 1
    farm.instants[LAST_EVENT] = farm.instants[NOW]
    note(farm, kind, what, builder, slot, attempt, farm.instants[NOW])


@inlined
def note(farm, kind, what, builder, slot, attempt, at):
    """Write down an event or a command, if the story will be asked for."""
    place = farm.counts[NOTED]
    if place < len(farm.notes):
        noted = farm.notes[place]
        noted.kind = kind
        noted.what = what
        noted.builder = builder
        noted.slot = slot
        noted.attempt = attempt
        noted.at = at
        farm.counts[NOTED] = place + 1


@inlined
def soon(farm, kind, what):
    """Let an event happen at this very instant, after those that are to happen already."""
    place = farm.counts[SOON_LAST]
    farm.soon[place].kind = kind
    farm.soon[place].what = what
    farm.counts[SOON_LAST] = place + 1


@compiled
def ask_alarm(farm, rings_at):
    """Have an alarm ring, unless an earlier one gives reason to ask again (``core.alarms``)."""
    counts = farm.counts
    if not counts[ALARMS] or rings_at < farm.alarms[counts[ALARMS] - 1]:
        farm.alarms[counts[ALARMS]] = rings_at
        counts[ALARMS] += 1
        put(farm.agenda, 0, ALARM_THING, rings_at, ALARM_RANK << 48)
        note(farm, ALARM, 0, -1, 0, 0, rings_at)


@compiled
def alarm_rang(farm):
    """Those up to this instant are over; the next one is expected."""
    counts = farm.counts
    while counts[ALARMS] and farm.alarms[counts[ALARMS] - 1] <= farm.instants[NOW]:
        counts[ALARMS] -= 1
    if counts[ALARMS]:
        put(farm.agenda, 0, ALARM_THING, farm.alarms[counts[ALARMS] - 1], ALARM_RANK << 48)


@inlined
def hope(farm):
    """Look, once nothing more arrives, whether jobs wait in vain; False: they are given up."""
    counts, instants = farm.counts, farm.instants
    if not counts[ARRIVALS_OVER]:
        return True
    if counts[OPEN] == 0 or counts[BUSY]:
        instants[STILL_SINCE] = np.inf
        return True
    if instants[STILL_SINCE] == np.inf:
        instants[STILL_SINCE] = instants[NOW]
    if instants[NOW] >= instants[STILL_SINCE] + PATIENCE:
        return False
    if not counts[BOOTING]:
        for lane in range(len(farm.lanes)):
            # with a builder there that could run them they would not wait
            if farm.lanes[lane].waiting and not farm.lanes[lane].hopeful:
                return False
    ask_alarm(farm, instants[STILL_SINCE] + PATIENCE)
    return True
