"""The estimate of a job's times that a submitter gets at submission."""

from __future__ import annotations

import msgspec

from farm.core.errors import ServerError
from farm.live.operating.operator import Operator
from farm.terminal.console import many
from farm.units import format_roughly

#: real seconds after which a busy scheduler is not waited for
ANSWERED_WITHIN = 3.0


class ToldEstimate(msgspec.Struct, frozen=True, kw_only=True):
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
    why: str = ""

    def said(self) -> str:
        """Return it in a sentence."""
        runs = f"it will run for about {_time(self.run_time_s)}"
        if self.ahead is None:
            return f"{self.job} goes at once; {runs}"
        if self.dispatch_in_s is None or self.completion_in_s is None:
            return f"{self.job} waits: {self.why}; {runs}"
        sooner = ", sooner if more builders come" if self.may_grow else ""
        return (
            f"{self.job} will be dispatched in about {_time(self.dispatch_in_s)} "
            f"({many(self.ahead, 'job')} before it{sooner}); {runs}, "
            f"so it is done in about {_time(self.completion_in_s)}"
        )


def estimate_of(operator: Operator, job_id: str) -> ToldEstimate | None:
    """Ask the farm for the estimates of a job; None if it has ended, or no scheduler answers."""
    if not operator.is_attended():
        return None
    try:
        found = operator.ask("job", job_id, ANSWERED_WITHIN).job
    except ServerError:
        return None
    if found is None:
        return None
    waits = found.ahead is not None
    start = found.dispatch_in_time if waits else 0.0
    return ToldEstimate(
        job=job_id,
        dispatch_in_s=start,
        run_time_s=found.estimated_time,
        completion_in_s=None if start is None else start + found.estimated_time,
        ahead=found.ahead,
        may_grow=found.may_grow,
        why=found.why,
    )


def _time(seconds: float) -> str:
    return format_roughly(seconds)
