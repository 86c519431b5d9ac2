"""How well a pool's twin waits as the records do: a grade, and a sentence with its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from textwrap import shorten
from typing import Final, Literal, NamedTuple

import numpy as np

from farm.results.formatting import readable_percent, readable_span
from farm_twin.twins.baseline import Check
from farm_twin.twins.flags import Flag, Kind

Grade = Literal["each job", "on average", "rough", "none"]
"""``each job``, and ``on average``: it waits as recorded, over all jobs, and each of them or not.
``rough``: off by no more than ``MAX_ROUGH``. ``none``: what it says is not about the farm."""
BELIEVABLE: Final = ("each job", "on average")

ENOUGH = 20
"""Jobs that each half must have."""
REPETITIONS = 16
"""Simulations with which a twin is checked whose waits hang on chance, or on a second."""
ON_AVERAGE = "on average, not job by job"
MAX_ROUGH = 0.5
"""Error of mean, p95 and each job, as a share, up to which a twin is rough and not none."""
ROUGH_STEP = 0.05
"""In steps of this the error of a rough twin is given, rounded up: it is an order of magnitude."""
MAX_MARK = 300
"""Characters of a reason that a scenario keeps."""
HARMLESS: Final[tuple[Kind, ...]] = ("lost attempts", "never saturated")
"""Flags that say nothing against the waits."""
REORDERED: Final[tuple[Kind, ...]] = ("hidden order", "subset", "several slots", "stall")
"""Flags of pools whose jobs wait for slots, though in another order, of other sizes, or not at some
time: how near their twin is on average says how rough it is. What others wait for is no slot, so a
twin that waits as long does so by chance."""
HELP: Final[Mapping[Kind, str]] = {
    "hidden order": "a column with what jobs go by, such as --column level=priority",
    "cap": "the records without the jobs that are capped (farm admin trace slice), or, if all are, "
    "as many builders as the cap",
    "gate": "a column with the instants from which jobs waited for a runner only: "
    "--column eligible=approved_at",
    "idle runners": "the records of all who use these runners, in one call",
    "subset": "the records of these labels alone, and those of the others (farm admin trace slice)",
    "stall": "the records without that time (farm admin trace slice)",
    "several slots": "platforms by size",
}
"""What would make a better twin of a pool that is flagged."""
HELP_TO_CHECK = f"records of a longer time, with {2 * ENOUGH} jobs of this pool or more"
HELP_WAITS = "a column with the instants from which jobs waited (--column submitted=created_at)"
HELP_OTHERWISE = "records of a longer time, or what sizes the pool, written into the scenario"


class TwinGrade(NamedTuple):
    """What is to be said of a pool's twin."""

    grade: Grade
    #: the grade with its figures, or why it is none and what would help
    text: str
    #: the grade as the scenario keeps it, with the error or the reason
    mark: str


class Evidence(NamedTuple):
    """What a pool's grade goes by."""

    #: of the half that was not seen; None: there are too few jobs
    check: Check | None
    #: some job of the farm waited
    has_waits: bool
    #: flags that speak against the twin
    blocking: Sequence[Flag]

    def has_too_few_jobs(self) -> bool:
        """Return whether there was nothing to check the twin with."""
        return self.check is None

    def lacks_waits(self) -> bool:
        """Return whether no job of the farm waited."""
        return not self.has_waits

    def has_jobs_that_never_start(self) -> bool:
        """Return whether no mean of the simulated waits exists."""
        return self.check is not None and not np.isfinite(self.check.simulated_mean)

    def holds_for_each_job(self) -> bool:
        """Return whether each job waits as it did, and all together."""
        return self.holds_on_average() and self.check is not None and self.check.job_by_job

    def holds_on_average(self) -> bool:
        """Return whether all jobs together wait as they did, and nothing speaks against the twin.

        A job may wait for another time than it did, if repetitions of the twin differ as much.
        """
        if self.check is None or self.blocking or not self.check.mean_and_p95_hold:
            return False
        return self.check.job_by_job or self.check.like_a_repetition

    def is_near(self) -> bool:
        """Return whether jobs wait for slots, about as long as they did."""
        return all(flag.kind in REORDERED for flag in self.blocking) and self.share_off <= MAX_ROUGH

    @property
    def share_off(self) -> float:
        """How far the waits are from the recorded ones, as a share of them."""
        return np.inf if self.check is None else self.check.share_off

    def is_anything_else(self) -> bool:
        """Return True: the last rule is for what no other one is for."""
        return True

    def reason(self) -> str:
        """Return what speaks against the twin, by its flags or else by what it misses."""
        if self.blocking or self.check is None:
            return "; ".join(flag.text for flag in self.blocking)
        return "; ".join(self.check.misses())

    def remedy(self) -> str:
        """Return what would make a better twin."""
        return HELP[self.blocking[0].kind] if self.blocking else HELP_OTHERWISE

    def figures(self) -> str:
        """Return the recorded and the simulated waits, if the twin was checked."""
        return "" if self.check is None else figures_of(self.check)


class Rule(NamedTuple):
    """A row of ``RULES``: a grade, whom it is for, and why it is not better."""

    applies: Callable[[Evidence], bool]
    grade: Grade
    #: None: the evidence has it, and it is shown with the check's figures
    reason: str | None = None
    remedy: str = HELP_OTHERWISE


RULES: Final = (
    Rule(
        Evidence.has_too_few_jobs,
        "none",
        f"too few jobs to check ({ENOUGH} in each half are needed)",
        HELP_TO_CHECK,
    ),
    Rule(
        Evidence.lacks_waits,
        "none",
        "every wait is zero: there always was room, or the records do not have the instant "
        "from which a job waited",
        HELP_WAITS,
    ),
    Rule(
        Evidence.has_jobs_that_never_start,
        "none",
        "some of its jobs never start on any farm that was tried",
    ),
    Rule(Evidence.holds_for_each_job, "each job"),
    Rule(Evidence.holds_on_average, "on average"),
    Rule(Evidence.is_near, "rough"),
    Rule(Evidence.is_anything_else, "none"),
)
"""The grades of a pool's twin: the first rule that applies says it.

The first three are for twins that nothing can be said of, so they come before any comparison; the
others go from the best grade to the worst."""


def verdict_of(check: Check | None, flags: Sequence[Flag], *, has_waits: bool = True) -> TwinGrade:
    """Return how well a pool's twin waits as recorded, and why not better; ``RULES`` decide.

    Args:
        check: of the half that was not seen; None: there are too few jobs.
        flags: what no pool of slots explains.
        has_waits: some job of the farm waited.
    """
    blocking = [
        flag
        for flag in flags
        if flag.kind not in HARMLESS and not flag.small and flag.limit is None
    ]
    evidence = Evidence(check, has_waits, blocking)
    rule = next(rule for rule in RULES if rule.applies(evidence))
    if rule.reason is not None:
        return _none(rule.reason, f"none: {rule.reason}; what would help: {rule.remedy}")
    figures = evidence.figures()
    remarks = "; ".join(flag.text for flag in flags if flag not in blocking)
    beside = f"; {remarks}" if remarks else ""
    if rule.grade == "each job":
        return TwinGrade("each job", f"each job: {figures}{beside}", "each job")
    if rule.grade == "on average":
        return TwinGrade("on average", f"{ON_AVERAGE}: {figures}{beside}", "on average")
    reason = evidence.reason()
    better = f"{reason}; what would help: {evidence.remedy()} ({figures}){beside}"
    if rule.grade == "rough":
        off = _rounded_up(evidence.share_off)
        return TwinGrade("rough", f"rough: {off}: {better}", f"rough: {off}")
    return _none(reason, f"none: {better}")


def _none(reason: str, text: str) -> TwinGrade:
    return TwinGrade("none", text, f"none: {shorten(reason, MAX_MARK, placeholder=' …')}")


def _rounded_up(share: float) -> str:
    """Return an error in steps of ``ROUGH_STEP``; a tenth of a step more is not one more."""
    steps = max(1, ceil(share / ROUGH_STEP - 0.1))
    return f"±{100 * steps * ROUGH_STEP:.0f} %"


def figures_of(check: Check) -> str:
    """Return the recorded and the simulated waits, and how far apart they are."""
    mean, recorded_mean, p95, recorded_p95 = map(
        readable_span,
        (check.simulated_mean, check.recorded_mean, check.simulated_p95, check.recorded_p95),
    )
    text = (
        f"mean wait {mean} where {recorded_mean} was recorded, p95 {p95} where {recorded_p95} was, "
        f"{readable_span(check.error_per_job.value)} off per job"
    )
    if check.recorded_mean:
        text += f", {readable_percent(check.share_per_job)} of the mean"
    if check.drawn_mean is not None and check.drawn_per_job is not None:
        low = readable_span(check.drawn_mean.low)
        high = readable_span(check.drawn_mean.high)
        apart = readable_span(check.drawn_per_job.high)
        text += (
            f" ({check.repetitions} repetitions of the twin: {low} to {high}, "
            f"up to {apart} off each other per job)"
        )
    return text
