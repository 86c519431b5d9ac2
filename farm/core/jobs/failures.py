"""What follows a failed attempt: its job fails, or Launchpad's judgement finds the culprit.

Under the judgement an attempt that failed (its job did, or its builder did not know of it) raises
the counts of its job and of its builder. While they are equal the job is retried; the one with
the higher count is to blame: the job fails, or the builder is cleaned, and at its fifth failure
taken out of service. A success resets the builder's count to zero. A job that was being cancelled
ends as cancelled, whatever the judgement; its builder is judged nevertheless. Failed attempts
leave nothing to resume, so they are judged as Launchpad judges failures at dispatch.
"""

from __future__ import annotations

import msgspec

from farm.core.jobs.failure_judgement import judge_failure
from farm.core.state import BuilderState, JobState, JobStatus


class FailureRules(msgspec.Struct, frozen=True, kw_only=True):
    """How failed attempts are judged."""

    #: how often a job may be reset while the culprit is unknown; then it fails. Launchpad has
    #: no such limit: with one builder a broken job would be retried forever.
    max_resets: int = 3


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The consequences of a failed attempt."""

    #: the job waits again at its old place; otherwise it fails
    job_is_reset: bool
    #: the builder is taken out of service
    builder_fails: bool
    reason: str


def judge(state: JobState, builder: BuilderState, rules: FailureRules, reason: str) -> Verdict:
    """Raise both counts and return the verdict."""
    state.failures += 1
    builder.failures += 1
    judgement = judge_failure(
        builder.failures,
        state.failures,
        retry=False,
        cancelling=state.status is JobStatus.CANCELLING,
        resets=state.resets,
        max_resets=rules.max_resets,
    )
    counts = f"failures: job {state.failures}, builder {builder.failures}"
    builder.failures = judgement.builder_failures_after
    job_is_reset = judgement.job_action == "reset"
    state.resets += job_is_reset
    return Verdict(
        job_is_reset=job_is_reset,
        builder_fails=judgement.builder_action == "fail",
        reason=f"{reason or 'the attempt failed'} ({counts})",
    )
