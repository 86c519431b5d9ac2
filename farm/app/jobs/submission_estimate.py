"""The estimate of a job's times that a submitter gets at submission."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from farm.core.errors import FarmError, ServerError
from farm.core.state.working_state import JobStatus
from farm.live.operating.answers import Answer, Method, why_they_differ
from farm.live.operating.client import FarmClient
from farm.units import format_roughly, many

#: real seconds after which a busy scheduler is not waited for
ANSWERED_WITHIN = 5.0
#: with more jobs waiting, a simulation takes longer than a command should
MAX_SIMULATED = 10_000


class SubmissionEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """A job's estimates just after its submission, farm seconds from then on."""

    job: str
    #: None: no builder that could run it is there
    dispatch_in_s: float | None
    run_time_s: float
    #: both together
    completion_in_s: float | None
    #: jobs that go before it; None: it does not wait
    ahead: int | None
    #: whether a provisioner may bring builders that the estimate does not count
    may_grow: bool = False
    #: how the dispatch was estimated; None: it was not
    estimated_by: Method | None = None
    rollouts: int = 0
    why: str = ""

    def in_words(self) -> str:
        """Return it in a sentence."""
        runs = f"it will run for about {format_roughly(self.run_time_s)}"
        if self.ahead is None:
            return f"{self.job} goes at once; {runs}"
        if self.dispatch_in_s is None or self.completion_in_s is None:
            return f"{self.job} waits: {self.why}; {runs}"
        sooner = ", sooner if more builders come" if self.may_grow else ""
        method, by = self.estimated_by, ""
        if method is not None:
            by = f", by {method_in_words(method, self.rollouts)}"
        return (
            f"{self.job} will be dispatched in about {format_roughly(self.dispatch_in_s)} "
            f"({many(self.ahead, 'job')} before it{by}{sooner}); {runs}, "
            f"so it is done in about {format_roughly(self.completion_in_s)}"
        )


def estimate_of(client: FarmClient, job_id: str) -> SubmissionEstimate | None:
    """Ask the farm for the estimates of a job; None if it has ended, or no scheduler answers."""
    if not client.is_attended():
        return None
    try:
        answer = client.ask("job", job_id, ANSWERED_WITHIN)
    except ServerError:
        return None
    found = with_provisioner(client, job_id, answer).job
    if found is None or found.status == JobStatus.BLOCKED.value:
        return None  # it has no place in line before its needs are met
    waits = found.ahead is not None
    start = found.dispatch_in_time if waits else 0.0
    return SubmissionEstimate(
        job=job_id,
        dispatch_in_s=start,
        run_time_s=found.estimated_time,
        completion_in_s=None if start is None else start + found.estimated_time,
        ahead=found.ahead,
        may_grow=found.may_grow,
        estimated_by=found.method if waits else None,
        rollouts=found.rollouts,
        why=found.why,
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
        from farm.app.forecasts.what_if import dispatch_at  # noqa: PLC0415 - the simulator

        at, count = dispatch_at(client.image(), job_id)
    except (FarmError, LookupError):  # dispatched since then, or the farm cannot be played here
        return answer
    within = None if at is None else max(0.0, at - answer.at)
    played = replace(found, method="rollouts", dispatch_in_time=within, rollouts=count)
    played = replace(played, lately=None, no_rollouts="", differs=why_they_differ(played))
    return replace(answer, job=replace(played, may_grow=False))


def method_in_words(method: Method, rollouts: int) -> str:
    """Return how an estimate was made."""
    return many(rollouts, "rollout") if method == "rollouts" else "the formula"
