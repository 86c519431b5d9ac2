"""Whether the builder or the job is to blame for a failure: Launchpad's judgement.

Both carry a count of failures. A failure raises both, so the one that also failed with others
has the higher count: it is the culprit. While the counts are equal the culprit is unknown; the
job is retried on its builder, and from ``JOB_RESET_THRESHOLD`` equal failures on it is reset, so
that it may land elsewhere.

Source: ``judge_failure`` and ``recover_failure`` of buildmaster/manager.py (2025).
"""

from __future__ import annotations

from typing import Literal

import msgspec

#: equal counts from which a job is reset: before, a failure that can be retried (not one at
#: dispatch) may have passed by the next scan, on the same builder
JOB_RESET_THRESHOLD = 3
#: failures with which a builder that is to blame is taken out of service: with fewer it may have
#: met bad jobs alone
BUILDER_FAILURE_THRESHOLD = 5

BuilderAction = Literal["dirty", "fail"]
JobAction = Literal["reset", "fail", "cancelled"]

NO_LIMIT = -1
NOTHING, DIRTY, OUT_OF_SERVICE = 0, 1, 2
RESET, FAILS = 1, 2
"""What is done to the builder, and to the job, by number; ``NOTHING`` to either."""
BUILDER_ACTIONS: tuple[BuilderAction | None, ...] = (None, "dirty", "fail")
JOB_ACTIONS: tuple[JobAction | None, ...] = (None, "reset", "fail")


class Judgement(msgspec.Struct, frozen=True):
    """What is done to both. None: nothing, the next scan retries."""

    #: dirty: clean it before its next job (which a farm does after every job or never, so here
    #: nothing follows from it); fail: take it out of service
    builder_action: BuilderAction | None = None
    #: reset: requeue; fail: end as failed
    job_action: JobAction | None = None
    #: the builder's new count; the job keeps its own through resets
    builder_failures_after: int = 0


def judge_failure(
    builder_failures: int,
    job_failures: int,
    *,
    retry: bool = True,
    isolation_error: bool = False,
    cancelling: bool = False,
    resets: int = 0,
    max_resets: int | None = None,
) -> Judgement:
    """Judge a failure after both counts were raised.

    ``retry`` is False for failures at dispatch, which leave nothing to retry; a job that is being
    cancelled is judged the same way, and ends as cancelled whatever the verdict. After an
    isolation error (a worker that is not what it should be) both are to blame.

    Upstream does not limit equal counts: a job that keeps breaking the same builder (a pool of
    one) is reset forever. With ``max_resets`` a job that has been reset that often (``resets``)
    fails instead; the builder keeps its count, because it may still be to blame. A farm whose rules
    have no ``max_resets`` judges no failure at all: this is not asked, and a job that fails ends.
    """
    of_builder, of_job, after = verdict(
        builder_failures,
        job_failures,
        retry and not cancelling,
        isolation_error,
        resets,
        NO_LIMIT if max_resets is None else max_resets,
    )
    job_action = "cancelled" if cancelling else JOB_ACTIONS[of_job]
    return Judgement(BUILDER_ACTIONS[of_builder], job_action, after)


def verdict(
    builder_failures: int,
    job_failures: int,
    retry: bool,
    isolated: bool,
    resets: int,
    max_resets: int,
) -> tuple[int, int, int]:
    """Return what is done to the builder and to the job, and the builder's new count.

    In numbers alone, as ``farm.sim.fast`` compiles it. ``max_resets``: ``NO_LIMIT``, or the bound.
    """
    if isolated:
        return OUT_OF_SERVICE, FAILS, 0
    if builder_failures == job_failures:
        if retry and builder_failures < JOB_RESET_THRESHOLD:
            return NOTHING, NOTHING, builder_failures
        if 0 <= max_resets <= resets:
            return NOTHING, FAILS, builder_failures
        return NOTHING, RESET, builder_failures
    if builder_failures > job_failures:
        broken = builder_failures >= BUILDER_FAILURE_THRESHOLD
        return (OUT_OF_SERVICE if broken else DIRTY), RESET, builder_failures
    return NOTHING, FAILS, 0
