"""As few builders as keep the estimated wait of a new job under an objective."""

from __future__ import annotations

from farm.core.pools.formulas.sizing import EARLY, FOREVER, NEVER, builders_for, towards


def builders_needed(look, next_slot_time, objective):
    """Return the fewest builders with which a new job waits at most ``objective`` seconds."""
    running, work = look.running_jobs, look.waiting_work
    if look.waiting_jobs == 0 and (running == 0 or next_slot_time <= objective):
        return builders_for(running, look)
    if running and next_slot_time + work / running <= objective:
        return builders_for(running, look)
    one_free, all_free = running + 1, running + look.waiting_jobs + 1
    return builders_for(min(max(one_free * 1.0, work / objective), all_free * 1.0), look)


def plan(look, options, next_slot_time, since, peak):
    """Return the plan, since when there are too many, and the most that was enough since."""
    needed = builders_needed(look, next_slot_time, options.objective)
    enough = builders_needed(look, next_slot_time, options.objective * options.release)
    present = look.present
    if present < needed or present <= enough:
        stoppable = look.joined if present < needed else look.idle
        desired, start, stop = towards(look, options, max(present, needed), stoppable)
        return desired, start, stop, NEVER, 0
    if peak >= present or since < 0.0:
        peak = 0 if peak >= present else peak  # all that are left were needed since
        since = look.at
    peak, wanted = max(enough, peak), present
    if look.at - since >= options.hold:
        wanted, since, peak = peak, look.at, enough
    desired, start, stop = towards(look, options, wanted, look.idle)
    return desired, start, stop, since, peak


def stays_until(look, options, next_slot_time, since, peak):
    """Return when holding ends; while the next free slot comes nearer, any plan may differ."""
    if 0.0 < next_slot_time < FOREVER:
        return look.at
    if since < 0.0:
        return FOREVER
    if peak >= look.present:  # the next plan starts to hold again
        return look.at
    return since + options.hold - EARLY
