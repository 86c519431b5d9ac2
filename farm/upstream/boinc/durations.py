"""What follows from an estimate: the rest of running jobs, kill limits, deadlines, correction."""

from __future__ import annotations

import math

import msgspec

from farm.upstream.boinc.records import ratio

#: a kill limit below this cannot be meant, seconds: the default replaces it
MIN_TIME_LIMIT = 120.0
DEFAULT_TIME_LIMIT = 12 * 3600.0
#: a job of a hard app is given this much more time
HARD_APP_FACTOR = 1.3


def running_total(
    elapsed: float,
    static: float,
    fraction_done: float,
    elapsed_at_fraction: float | None = None,
    *,
    exact: bool = False,
) -> float:
    """Return the total time of a running job from its reported progress.

    ``static`` is the estimate before it began. Without progress the part done is assumed to
    approach 1 exponentially. With some, the dynamic estimate counts by the part done; alone, when
    the static one is outrun or the app's progress is ``exact``.
    """
    if fraction_done >= 1:
        return elapsed
    if fraction_done <= 0:
        part = -math.expm1(-ratio(elapsed, static)) if elapsed > 0 else 0.0
        return elapsed / part if part > 0 else static
    at_fraction = elapsed if elapsed_at_fraction is None else elapsed_at_fraction
    dynamic = at_fraction / fraction_done
    if exact or elapsed > static:
        return dynamic
    return fraction_done * dynamic + (1 - fraction_done) * static


def time_limit(size_bound: float, flops: float) -> float:
    """Return after how many seconds a client ends the job; less than 120 s means 12 hours."""
    limit = ratio(size_bound, flops)
    return DEFAULT_TIME_LIMIT if limit < MIN_TIME_LIMIT else limit


def corrected_factor(factor: float, elapsed: float, uncorrected: float) -> float:
    """Return an old client's duration correction factor after a job.

    It rises at once, falls slowly, and hardly at all after a job that took under a tenth.
    """
    raw = ratio(elapsed, uncorrected)
    adjusted = raw / factor
    if adjusted > 1.1:
        factor = raw
    elif adjusted < 0.1:
        factor = 0.99 * factor + 0.01 * raw
    else:
        factor = 0.9 * factor + 0.1 * raw
    return min(max(factor, 0.01), 100.0)


class DeadlineCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check."""

    ok: bool
    #: wall-clock time of the job itself, seconds
    duration: float
    #: when it would be back, seconds from now; None when the check was skipped
    report_delay: float | None = None
    #: by how much it would be late
    miss: float = 0.0
    #: why the check was skipped
    skipped: str = ""


def check_deadline(
    queue_delay: float,
    wall_time: float,
    delay_bound: float,
    *,
    hard: bool = False,
    ignore: bool = False,
) -> DeadlineCheck:
    """Check that queue and job fit into the bound; equality fits.

    An idle host passes unless the app is hard: every host gets one job, however slow it is.
    """
    if ignore:
        return DeadlineCheck(ok=True, duration=wall_time, skipped="bounds are ignored")
    if queue_delay == 0 and not hard:
        return DeadlineCheck(ok=True, duration=wall_time, skipped="the host has no queued work")
    duration = wall_time * HARD_APP_FACTOR if hard else wall_time
    delay = queue_delay + duration
    miss = max(0.0, delay - delay_bound)
    return DeadlineCheck(ok=miss == 0, duration=duration, report_delay=delay, miss=miss)


def delay_bounds(delay_bound: float, reduced: float, wall_time: float) -> tuple[int, int]:
    """Return the bounds to try in turn, optimistic and pessimistic, in whole seconds.

    ``reduced`` is the share of the bound that a reliable host gets for an urgent job (0.01 or
    less: no reduction). It is raised to twice the estimate if that is more, less than twice as
    much, and within the full bound.
    """
    optimistic = delay_bound
    if reduced > 0.01:
        optimistic = delay_bound * reduced
        twice = 2 * wall_time
        if optimistic < twice < min(delay_bound, 2 * optimistic):
            optimistic = twice
    return int(optimistic), int(delay_bound)
