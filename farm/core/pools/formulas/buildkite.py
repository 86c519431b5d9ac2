"""The Buildkite agent scaler over an auto-scaling group."""

from __future__ import annotations

import math

from farm.core.pools.formulas.sizing import EARLY, FOREVER, builders_for, limited, towards, whole


def plan(look, options, group, out_at, in_at):
    """Return the plan, the group's size, and when it last changed in each direction.

    ``group`` below 0: none yet.
    """
    required = look.waiting_jobs + look.running_jobs
    instances = builders_for(required, look)
    buffer = min(instances, options.instance_buffer)
    if group < 0:
        group = look.present
    if options.disable_scale_in:
        group = min(group, max(look.present, instances + buffer))
    group = limited(group, options)
    wanted = instances
    if required and look.joined < options.availability_threshold * group:
        settled = out_at < 0.0 or look.at - out_at >= options.settle_time
        wanted = max(instances, group + 1 if settled and look.present >= group else group)
    change = limited(wanted + buffer, options) - group
    grew_at, shrank_at = out_at, in_at
    if options.scale_only_after_all_events:
        grew_at = shrank_at = max(out_at, in_at)
    step = 0
    if change > 0 and cool(look.at, grew_at, options.out_cooldown):
        step, out_at = whole(change * options.out_factor), look.at
    elif (
        change < 0
        and not options.disable_scale_in
        and cool(look.at, shrank_at, options.in_cooldown)
    ):
        step, in_at = math.floor(max(change * options.in_factor, -group * 1.0)), look.at
    group = limited(group + step, options)
    desired, start, stop = towards(look, options, group, look.joined)
    return desired, start, stop, group, out_at, in_at


def cool(at, event_at, cooldown):
    """Return whether an event was long enough ago."""
    return event_at < 0.0 or at - event_at >= cooldown


def stays_until(look, options, out_at, in_at):
    """Return when the group counts as settled, or a cooldown is over."""
    soonest = FOREVER
    for changed_at in (out_at, in_at):
        if changed_at == look.at:
            return look.at  # it tried to change the group just now, and does so again
        if changed_at >= 0.0:
            for span in (options.settle_time, options.out_cooldown, options.in_cooldown):
                if changed_at + span + EARLY >= look.at:
                    soonest = min(soonest, changed_at + span - EARLY)
    return soonest
