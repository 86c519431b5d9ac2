"""How well a pool's twin waits as the records do: a grade, and a sentence with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class Verdict(NamedTuple):
    """What is to be said of a pool's twin."""

    grade: Grade
    #: the grade with its figures, or why it is none and what would help
    text: str
    #: the grade as the scenario keeps it, with the error or the reason
    mark: str


def verdict_of(check: Check | None, flags: Sequence[Flag], *, has_waits: bool = True) -> Verdict:
    """Return how well a pool's twin waits as recorded, and why not better.

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
    remarks = "; ".join(flag.text for flag in flags if flag not in blocking)
    if check is None:
        return _none(f"too few jobs to check ({ENOUGH} in each half are needed)", HELP_TO_CHECK)
    if not has_waits:
        why = (
            "every wait is zero: there always was room, or the records do not have the instant "
            "from which a job waited"
        )
        return _none(why, HELP_WAITS)
    if not np.isfinite(check.simulated_mean):
        return _none("some of its jobs never start on any farm that was tried", HELP_OTHERWISE)
    figures = figures_of(check)
    beside = f"; {remarks}" if remarks else ""
    alike = check.mean_and_p95_hold and (check.job_by_job or check.like_a_repetition)
    if alike and not blocking:
        if check.job_by_job:
            return Verdict("each job", f"each job: {figures}{beside}", "each job")
        return Verdict("on average", f"{ON_AVERAGE}: {figures}{beside}", "on average")

    why = "; ".join(flag.text for flag in blocking) or "; ".join(check.misses())
    helps = HELP[blocking[0].kind] if blocking else HELP_OTHERWISE
    is_of_slots = all(flag.kind in REORDERED for flag in blocking)
    if is_of_slots and check.share_off <= MAX_ROUGH:
        steps = max(1, ceil(check.share_off / ROUGH_STEP - 0.1))
        off = f"±{100 * steps * ROUGH_STEP:.0f} %"
        text = f"rough: {off}: {why}; what would help: {helps} ({figures}){beside}"
        return Verdict("rough", text, f"rough: {off}")
    return _none(why, helps, figures, beside)


def _none(why: str, helps: str, figures: str = "", beside: str = "") -> Verdict:
    shown = f" ({figures}){beside}" if figures else ""
    text = f"none: {why}; what would help: {helps}{shown}"
    return Verdict("none", text, f"none: {shorten(why, MAX_MARK, placeholder=' …')}")


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
