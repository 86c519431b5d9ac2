"""Counts events and, if they will be needed, notes them; compiled."""

from __future__ import annotations

from farm.emulation.agenda import ALARM as ALARM_RANK
from farm.sim.fast.kernel.heaps import put
from farm.sim.fast.kernel.layout import ALARM, ALARM_THING


def happened(farm, kind, what, builder=-1, slot=0, attempt=0):
    """Count an event, and note it."""
    farm.counts[0].events += 1
    farm.instants[0].last_event = farm.instants[0].now
    note(farm, kind, what, builder, slot, attempt, farm.instants[0].now)


def note(farm, kind, what, builder, slot, attempt, at, failures=0):
    """Note an event or a command, if notes are taken."""
    place = farm.counts[0].noted
    if place < len(farm.notes):
        noted = farm.notes[place]
        noted.kind = kind
        noted.what = what
        noted.builder = builder
        noted.slot = slot
        noted.attempt = attempt
        noted.failures = failures
        noted.at = at
        farm.counts[0].noted = place + 1


def soon(farm, kind, what):
    """Schedule an event at this very instant, after those already scheduled."""
    place = farm.counts[0].soon_last
    farm.soon[place].kind = kind
    farm.soon[place].what = what
    farm.counts[0].soon_last = place + 1


def ask_alarm(farm, rings_at):
    """Set an alarm, unless an earlier one will lead to another request (``core.alarms``)."""
    counts = farm.counts[0]
    if not counts.alarms or rings_at < farm.alarms[counts.alarms - 1]:
        farm.alarms[counts.alarms] = rings_at
        counts.alarms += 1
        put(farm.agenda, 0, ALARM_THING, rings_at, ALARM_RANK << 48)
        note(farm, ALARM, 0, -1, 0, 0, rings_at)


def alarm_rang(farm):
    """Remove the alarms up to this instant; the next one is expected."""
    counts = farm.counts[0]
    while counts.alarms and farm.alarms[counts.alarms - 1] <= farm.instants[0].now:
        counts.alarms -= 1
    if counts.alarms:
        put(farm.agenda, 0, ALARM_THING, farm.alarms[counts.alarms - 1], ALARM_RANK << 48)
