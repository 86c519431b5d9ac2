"""The policy of GitLab Runner's autoscalers."""

from __future__ import annotations

import math

from farm.core.pools.formulas.sizing import (
    EARLY,
    FOREVER,
    MOST,
    NEVER,
    builders_for,
    towards,
    whole,
)


def plan(look, options, since, tokens, filled_at):
    """Return the plan, since when there are too many, and the throttle's bucket."""
    running = look.running_jobs
    jobs = running if options.is_preemptive else running + look.waiting_jobs
    if options.in_machines:
        wanted = builders_for(jobs, look) + idle_wanted(options, builders_for(running, look))
    else:
        wanted = builders_for(jobs + idle_wanted(options, running), look)
    desired, start, stop = towards(look, options, wanted, look.idle)
    if not stop:
        since = NEVER
    elif since < 0.0:
        since = look.at
    if since < 0.0 or look.at - since < options.idle_time:
        stop = 0
    tokens = filled(options, look.at, tokens, filled_at)
    if options.throttle_limit:
        start = min(start, math.floor(max(0.0, min(tokens, MOST))))
    if options.max_booting:
        start = min(start, max(0, options.max_booting - look.booting))
    return desired, start, stop, since, tokens - start, look.at


def idle_wanted(options, in_use):
    """Return how much to keep idle beside what is in use, both in jobs or both in machines."""
    if options.scale_factor == 0.0:
        return options.idle_count
    # 70 * 0.1 is more than 7
    millionths = math.floor(min(in_use * options.scale_factor, MOST / 1e6) * 1e6 + 0.5)
    exact = millionths / 1e6
    share = math.floor(exact) if options.in_machines else whole(exact)
    if options.scale_factor_limit:
        share = min(share, options.scale_factor_limit)
    return max(options.idle_count, share)


def filled(options, at, tokens, filled_at):
    """Return what is in the throttle's bucket, which is infinite if full."""
    burst = options.throttle_burst * 1.0
    if options.throttle_limit == 0.0:
        return burst
    return min(burst, tokens + (at - filled_at) * options.throttle_limit)


def stays_until(look, options, since, tokens):
    """Return when the surplus has lasted; while the bucket fills, any plan may differ."""
    if options.throttle_limit and tokens < options.throttle_burst:
        return look.at
    return FOREVER if since < 0.0 else since + options.idle_time - EARLY
