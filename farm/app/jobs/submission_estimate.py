"""The estimate of a job's times that a submitter gets at submission."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from farm.app.jobs.job_forecast import forecast_of, goes_at_once, in_words, time_of_day
from farm.core.errors import FarmError, ServerError
from farm.live.operating.answers import Answer, Method, why_they_differ
from farm.live.operating.client import FarmClient

#: real seconds after which a busy scheduler is not waited for
ANSWERED_WITHIN = 5.0
#: with more jobs waiting, a simulation takes longer than a command should
MAX_SIMULATED = 10_000


class SubmissionEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """A job's estimates just after its submission, farm seconds from then on."""

    job: str
    #: None: no builder that could run it is there
    dispatch_in_s: float | None
    #: in this range eight jobs of ten are dispatched; None: it may wait very long
    dispatch_in_p10_s: float | None = None
    dispatch_in_p90_s: float | None = None
    run_time_s: float
    run_time_p10_s: float | None = None
    run_time_p90_s: float | None = None
    #: dispatch and run time together, as expected, and by when nine jobs of ten are done
    completion_in_s: float | None
    completion_in_p90_s: float | None = None
    #: others may always go before it
    may_wait_very_long: bool = False
    #: of the last jobs that were told such a range: how many started, and how many within it
    forecasts_checked: int = 0
    forecasts_in_time: int = 0
    #: jobs that go before it; None: it does not wait
    ahead: int | None
    #: whether a provisioner may bring builders that the estimate does not count
    may_grow: bool = False
    #: how the dispatch was estimated; None: it was not
    estimated_by: Method | None = None
    rollouts: int = 0
    why: str = ""
    #: all of it in one sentence
    forecast: str = ""

    def in_words(self) -> str:
        """Return it in a sentence."""
        return self.forecast


def estimate_of(client: FarmClient, job_id: str) -> SubmissionEstimate | None:
    """Ask the farm for the estimates of a job; None if it has ended, or no scheduler answers."""
    if not client.is_attended():
        return None
    try:
        answer = client.ask("job", job_id, ANSWERED_WITHIN)
        found = with_provisioner(client, job_id, answer).job
        if found is None:
            return None
        sentence = in_words(job_id, found, client.status().speed, time_of_day())
    except ServerError:
        return None
    made = forecast_of(found)
    waits = not goes_at_once(found)
    return SubmissionEstimate(
        job=job_id,
        dispatch_in_s=made.start,
        dispatch_in_p10_s=made.start_low,
        dispatch_in_p90_s=made.start_high,
        run_time_s=found.estimated_time,
        run_time_p10_s=made.run_time_low,
        run_time_p90_s=made.run_time_high,
        completion_in_s=made.done,
        completion_in_p90_s=made.done_high,
        may_wait_very_long=made.is_open,
        forecasts_checked=made.checked,
        forecasts_in_time=made.in_time,
        ahead=found.ahead,
        may_grow=found.may_grow,
        estimated_by=found.method if waits else None,
        rollouts=found.rollouts,
        why=found.why,
        forecast=sentence,
    )


def with_provisioner(client: FarmClient, job_id: str, answer: Answer) -> Answer:
    """Return what the scheduler knows of a job, with an estimate that plays the provisioner.

    The scheduler's own estimate counts the builders that are there. Where more may come, the farm
    is simulated from its present state. A farm that is too large for it, or uses functions that
    are not installed here, leaves the scheduler's, and ``may_grow``.
    """
    found = answer.job
    if found is None or not found.may_grow or found.ahead is None:
        return answer
    try:
        if client.status().waiting > MAX_SIMULATED:
            return answer
        from farm.app.forecasts.what_if import dispatch_of  # noqa: PLC0415 - the simulator

        within, found_range, count = dispatch_of(client.image(), job_id)
    except (FarmError, LookupError):  # dispatched since then, or the farm cannot be played here
        return answer
    played = replace(
        found,
        method="rollouts",
        dispatch_in_time=within,
        dispatch_range=found_range,
        rollouts=count,
        lately=None,
        no_rollouts="",
    )
    played = replace(played, differs=why_they_differ(played))
    return replace(answer, job=replace(played, may_grow=False))
