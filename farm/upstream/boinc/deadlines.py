"""Deadlines: whether a job sent to a host would be back in time, behind its queue."""

from __future__ import annotations

import msgspec

#: a job of a hard app is given this much more time
HARD_APP_FACTOR = 1.3


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
