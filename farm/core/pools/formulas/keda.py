"""A scaler of KEDA's with the Kubernetes HPA behind it."""

from __future__ import annotations

from farm.core.pools.formulas.sizing import limited, whole


def length_of(look, options):
    """Return the length of the queue that the trigger sees."""
    return look.waiting_jobs + look.running_jobs if options.counts_running else look.waiting_jobs


def due(at, last_at, every):
    """Return whether something is due that is done at intervals."""
    return last_at < 0.0 or at >= last_at + every


def polled(at, length, options, replicas, active_at):
    """Return the builders wanted after a poll, which switches between none and some."""
    if length >= options.active_from:
        replicas = replicas or limited(max(1, options.least), options)
    elif options.least == 0 and at - active_at >= options.cooldown:
        replicas = 0
    return max(replicas, options.least)


def recommended(length, options, now):
    """Return the HPA's recommendation for a pool that is not at none."""
    if abs(length / (options.target * now) - 1) <= options.tolerance:
        return now
    return whole(length / options.target)


def synced(options, wanted, now, highest, added):
    """Return the builders wanted after a sync of the HPA's.

    ``highest``: of the recommendations that are remembered; ``added``: in this scale-up period.
    """
    before = now - added
    doubled = whole(before * (1 + options.scale_up_percent / 100))
    most = max(before + options.scale_up_builders, doubled)
    steady = max(wanted, min(now, highest))
    return limited(max(1, min(steady, max(now, most))), options)
