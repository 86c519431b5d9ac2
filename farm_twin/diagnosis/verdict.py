"""One sentence on each platform: why its jobs wait, with the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from farm.records.bundle import Manifest
from farm.units import format_roughly, many
from farm_twin.diagnosis.evidence import Assumption, Finding, Grade
from farm_twin.diagnosis.figures import PlatformFigures

Kind = Literal[
    "fine",
    "short of servers",
    "not capacity",
    "bursts",
    "boot time",
    "lost to retries",
    "stalled",
    "hosted runners",
    "cannot tell",
]


ABOUT_SLOTS: tuple[Kind, ...] = ("short of servers", "bursts", "fine")
"""Verdicts that say how many slots would do."""


MAX_SHARE_UNEXPLAINED = 0.5
"""Share of the waiting beside free slots for which nothing is seen, up to which it is explained."""
MIN_WAIT_OF_PARTS = 10.0
"""Seconds of a mean wait from which it is said what they are."""
MAY_RUN_OTHERS = (
    "these runners also run jobs that are not in these records (those of all who use them, in one "
    "call, settle it)"
)
MORE_SLOTS = 1.25
"""Times as many slots as were in use: a verdict that is another one then is said to hang on it."""


class VerdictLimits(msgspec.Struct, frozen=True, kw_only=True):
    """From where on a figure is worth a word, or decides over the verdict."""

    #: jobs with a known wait, below which nothing is said
    min_jobs: int = 20
    #: load ÷ slots from which a farm is short of servers, not only at times
    min_utilization: float = 0.85
    #: share of free slots while jobs wait, from which capacity is not the cause
    min_idle_share: float = 0.3
    #: share of the waiting at the most jobs at once, from which that number is a limit
    min_share_at_limit: float = 0.8
    #: mean slots as a share of the most, below which it is said what all of them can serve
    min_share_there: float = 0.75
    #: jobs an hour from which rates are told by the hour, and not by the day
    min_hourly_rate: float = 10.0
    #: share of busy time of attempts that were tried again
    min_wasted_share: float = 0.15
    #: share of waits that were broken off
    min_broken_off_share: float = 0.05
    #: time between two jobs of a runner that may explain idle slots: seconds, and as a share of
    #: the mean run time
    min_turnaround: float = 10.0
    min_turnaround_share: float = 0.1
    #: slots that are filled by what passes between two jobs
    min_slots_between: float = 0.05


LIMITS = VerdictLimits()


class Verdict(msgspec.Struct, frozen=True):
    """What is the matter with a platform."""

    platform: str
    kind: Kind
    text: str
    #: how far it can be relied on
    grade: Grade = "sure"
    #: what was read and counted, and what the checks have found: a clause each
    evidence: tuple[str, ...] = ()
    #: what the records do not say, and how the verdict changes if it is otherwise
    assumed: tuple[Assumption, ...] = ()

    @property
    def title(self) -> str:
        """Its kind, and that it is only likely, if it is."""
        return f"{self.kind} (likely)" if self.grade == "likely" else self.kind


def verdicts(
    figures: PlatformFigures,
    manifest: Manifest,
    objective: float,
    findings: Sequence[Finding] = (),
) -> Iterator[Verdict]:
    """Yield why the jobs of a platform wait, and what else is lost.

    Args:
        figures: of the platform.
        manifest: of its records.
        objective: of the p95 wait, seconds.
        findings: of the checks of these records.
    """
    resolution = manifest.resolution_time
    about = [finding for finding in findings if finding.is_about(figures.platform)]
    kind, text = _reason(figures, resolution, objective)
    forbidding = [finding for finding in about if finding.effect == "forbids"]
    reversing = [finding for finding in about if finding.reversed_if]
    if forbidding:
        kind = "cannot tell"
        text = "; ".join(finding.text for finding in forbidding)
    elif reversing and kind != "cannot tell":
        conditions = ", and unless ".join(finding.reversed_if for finding in reversing)
        text = f"unless {conditions}: {text}"
    elif kind == "not capacity" and _is_unexplained(figures):
        text = f"unless {MAY_RUN_OTHERS}: {text}"
    if figures.servers_needed is not None and kind in ABOUT_SLOTS:
        additions = [finding.about_slots for finding in about if finding.about_slots]
        text = "; ".join([text, *additions])
    evidence = (*_evidence(figures, manifest), *(finding.text for finding in about))
    assumed = (
        *_assumptions(figures, resolution, objective),
        *(finding.assumed for finding in about if finding.assumed is not None),
    )
    grade: Grade = "sure"
    if kind == "cannot tell":
        grade = "cannot-tell"
    elif kind == "not capacity" and _is_unexplained(figures):
        grade = "likely"
        what = "jobs on these runners"
        assumed = (*assumed, Assumption(what, "those in the records", "short of servers"))
    elif kind == "boot time" or any(finding.effect == "weakens" for finding in about):
        grade = "likely"
    yield Verdict(figures.platform, kind, text, grade, evidence, assumed)
    if figures.attempts < LIMITS.min_jobs or forbidding:
        return
    if figures.stall_time:
        yield Verdict(
            figures.platform,
            "stalled",
            f"for {format_roughly(figures.stall_time)} jobs waited and none ran at all: "
            "no queue explains that; leave that time out of any comparison",
            grade,
            evidence,
        )
    if figures.wasted_share >= LIMITS.min_wasted_share:
        yield Verdict(
            figures.platform,
            "lost to retries",
            f"{figures.wasted_share:.0%} of the busy time was of attempts that were tried again "
            f"({many(figures.retries, 'attempt')} after the first)",
            grade,
            evidence,
        )


def _evidence(figures: PlatformFigures, manifest: Manifest) -> Iterator[str]:
    """Yield what was read and counted."""
    yield manifest.summary()
    if manifest.resolution_time:
        yield f"times are exact to {format_roughly(manifest.resolution_time)}"
    counts = [f"{figures.waits.count:,} with a known wait"]
    cancelled = figures.censored - figures.still_waiting
    if cancelled:
        counts.append(f"{cancelled:,} cancelled while they waited")
    if figures.still_waiting:
        counts.append(f"{figures.still_waiting:,} still waiting at the end")
    if figures.unknown_waits:
        counts.append(f"{figures.unknown_waits:,} with an unknown wait")
    yield f"{many(figures.attempts, 'attempt')} of this platform, {', '.join(counts)}"
    if figures.runners:
        yield (
            f"{many(figures.runners, 'runner')} named, {figures.slots_seen:g} slots at most: as "
            "many jobs as each ran at once"
        )


def _assumptions(
    figures: PlatformFigures, resolution: float, objective: float
) -> Iterator[Assumption]:
    """Yield what is assumed of a platform's slots, and the verdict if it is otherwise."""
    told = figures.slots_told
    if told is not None:
        more = _kind_with(figures, (told + 1) / told, resolution, objective)
        yield Assumption("slots", f"{told:g}, as told", f"with {told + 1:g}: {more}")
    elif figures.slots_in_use:
        more = _kind_with(figures, MORE_SLOTS, resolution, objective)
        yield Assumption(
            "slots",
            f"{figures.slots_in_use:g}, the most that were in use",
            f"with {MORE_SLOTS * figures.slots_in_use:.0f}: {more}",
        )
    elif not figures.runners and not figures.hosted:
        yield Assumption("slots", "not known", "with --slots N, or a column of runners: a verdict")
    elif figures.runners and not figures.grows and not figures.ephemeral:
        slots = figures.runner_slots
        more = _kind_with(figures, (slots + 1) / slots, resolution, objective)
        yield Assumption("slots of a runner", f"{slots}, as seen", f"{slots + 1}: {more}")
    if figures.shared_with:
        others = ", ".join(name or "(no labels)" for name in figures.shared_with)
        yield Assumption(
            "shared runners",
            f"they also run {others:.200}",
            "apart from these, each platform needs slots of its own",
        )


def _kind_with(
    figures: PlatformFigures, factor: float, resolution: float, objective: float
) -> Kind:
    """Return the verdict if there were more slots by this factor."""
    idle = figures.idle_while_waiting
    kind, _ = _reason(
        msgspec.structs.replace(
            figures,
            mean_slots=figures.mean_slots * factor,
            slots_seen=figures.slots_seen * factor,
            utilization=figures.utilization and figures.utilization / factor,
            busy_share=figures.busy_share and figures.busy_share / factor,
            idle_while_waiting=None if idle is None else 1 - (1 - idle) / factor,
        ),
        resolution,
        objective,
    )
    return kind


def too_little(figures: PlatformFigures, resolution: float) -> str:
    """Return why the records of a platform cannot tell why its jobs wait; nothing, if they can."""
    known_waits = figures.waits.count + figures.censored
    if not figures.run_time.count:
        return f"of {many(figures.attempts, 'job')} none ran to its end"
    if known_waits < LIMITS.min_jobs:
        jobs = "job" if known_waits == 1 else "jobs"
        return f"{known_waits} {jobs} with a known wait: too few to judge"
    longest = figures.waits.max
    are_none = longest is not None and longest <= resolution and not figures.censored
    if are_none and not figures.arrivals_are_measured:
        return (
            "every wait is zero: either there always was room, or these records do not have the "
            "instant from which a job waited"
        )
    return ""


def _reason(figures: PlatformFigures, resolution: float, objective: float) -> tuple[Kind, str]:
    """Return why jobs wait.

    What the records cannot say comes first, then platforms whose jobs do not wait too long. For the
    others the evidence against more servers is weighed before the evidence for them.
    """
    missing = too_little(figures, resolution)
    if missing:
        return "cannot tell", missing
    p95 = figures.wait_p95
    is_fine = p95 is not None and p95 <= objective
    is_limited = (figures.full_while_waiting or 0.0) >= LIMITS.min_share_at_limit
    if figures.hosted and (is_fine or not is_limited):
        longest = "more than was seen" if p95 is None else format_roughly(p95)
        return "hosted runners", f"a delay, not a queue of yours: p95 wait {longest}"
    if p95 is not None and p95 <= objective:
        within = f"95 % started within {format_roughly(p95)}"
        if figures.grows:
            return "fine", f"{within}; {_new_runners(figures)}{_parts_of(figures)}"
        return "fine", f"{within}{_parts_of(figures)}{_spare_slots(figures, objective)}"

    waits = _waits(figures)
    would_do = _slots_that_would_do(figures, objective)
    is_short = (figures.utilization or 0.0) >= LIMITS.min_utilization
    has_idle_slots = (figures.idle_while_waiting or 0.0) >= LIMITS.min_idle_share
    if figures.unlike_slots and (not figures.mean_slots or has_idle_slots):
        return "cannot tell", f"{waits}, but {figures.unlike_slots}{_settled_by(figures)}"
    if figures.hosted:
        return "short of servers", (
            f"{waits}; hosted runners, but never more than {figures.busy_at_once} at once, and "
            f"{figures.full_while_waiting:.0%} of the waiting passed while that many ran: a limit "
            f"of the plan or a setting{would_do}"
        )
    if figures.grows and not is_limited:
        return "boot time", (
            f"{waits}; {_new_runners(figures)}{_parts_of(figures)}: keep runners ready, or have "
            "them start sooner"
        )
    if figures.runners == 0 and figures.slots_told is None and not figures.slots_in_use:
        return "cannot tell", (
            f"{waits}, but the records name no runners; the load is {figures.offered_load:.1f} "
            f"busy slots on average{_settled_by(figures)}{would_do}"
        )
    if has_idle_slots:
        return "not capacity", f"{waits}, {_why_slots_were_idle(figures)}"
    if is_short:
        return "short of servers", (
            f"{waits}; {_demand(figures)}, capacity {_number_of_slots(figures)} "
            f"({100 * (figures.utilization or 0.0):.0f} %): {_rates(figures)}{would_do}"
        )
    were = "was" if figures.mean_slots == 1 else "were"
    return "bursts", (
        f"{waits}, though {_mean_slots(figures)} {were} busy only {figures.busy_share or 0:.0%} "
        f"of the time; while jobs waited {figures.busy_share_while_waiting or 0:.0%}"
        f"{_worst_hour(figures)}{would_do}"
    )


def _is_unexplained(figures: PlatformFigures) -> bool:
    """Return whether nothing that was seen explains most of the waiting beside free slots."""
    parts = figures.wait_parts
    return parts.other > MAX_SHARE_UNEXPLAINED * parts.beside_free_slots


def _parts_of(figures: PlatformFigures) -> str:
    """Return what most of the mean wait is, if that is not the queue; nothing, if it is."""
    parts = figures.wait_parts
    named = {
        "the runner's start": parts.start,
        "a cap on jobs at once": parts.cap,
        "of jobs that were held while younger ones started": parts.held,
        "while none started although slots were free": parts.stall,
    }
    what, time = max(named.items(), key=lambda item: item[1])
    if time <= parts.whole / 2 or parts.whole < MIN_WAIT_OF_PARTS:
        return ""
    return f"; of {format_roughly(parts.whole)} on average {format_roughly(time)} are {what}"


def _settled_by(figures: PlatformFigures) -> str:
    """Return what would tell how many slots there are; nothing, if that was told."""
    return "" if figures.slots_told else " (--slots N, all that the platform has, settles it)"


def _new_runners(figures: PlatformFigures) -> str:
    """Return how many waits ended with the first job of a new runner, and after how long."""
    waits = figures.new_runner_wait
    usual = format_roughly(waits.p50 or 0.0)
    return (
        f"{waits.count:,} of {figures.waits.count:,} waits ended with the first job of a new "
        f"runner, half of them after {usual} or more"
    )


def _waits(figures: PlatformFigures) -> str:
    """Return how long jobs waited, and how many gave up."""
    if figures.wait_p95 is None:
        return f"{figures.censored:,} of {figures.attempts:,} jobs {_did_not_start(figures)}"
    text = f"p95 wait {format_roughly(figures.wait_p95)}"
    broken_off_share = figures.censored / figures.attempts
    if broken_off_share >= LIMITS.min_broken_off_share:
        text += f", and {broken_off_share:.0%} {_did_not_start(figures)}"
    return text


def _did_not_start(figures: PlatformFigures) -> str:
    """Return what became of the jobs that did not start."""
    if figures.still_waiting == figures.censored:
        return "still waited when the records ended"
    if figures.still_waiting:
        return "were cancelled before they started, or still waited when the records ended"
    return "were cancelled before they started"


def _mean_slots(figures: PlatformFigures) -> str:
    """Return how many slots there were."""
    return f"{_number_of_slots(figures)} {'slot' if figures.mean_slots == 1 else 'slots'}"


def _number_of_slots(figures: PlatformFigures) -> str:
    """Return the mean number of slots; a whole one without a fraction."""
    mean = figures.mean_slots
    return f"{mean:,.1f}" if mean % 1 else f"{mean:,.0f}"


def _why_slots_were_idle(figures: PlatformFigures) -> str:
    """Return that slots were idle while jobs waited, and what may have kept them apart."""
    look_at = "dispatch, a cap on jobs at once"
    evidence = ""
    share_at_limit = figures.full_while_waiting or 0.0
    turnaround = figures.turnaround.p50 or 0.0
    mean_run_time = figures.run_time.mean or 0.0
    if share_at_limit >= LIMITS.min_share_at_limit:
        look_at = "a cap on jobs at once"
        evidence = (
            f"; {share_at_limit:.0%} of the waiting passed while about {figures.busy_at_once} jobs "
            "ran, as many as ever"
        )
    elif turnaround >= max(LIMITS.min_turnaround, LIMITS.min_turnaround_share * mean_run_time):
        evidence = f"; {format_roughly(turnaround)} passed between two jobs of a runner"
    return (
        f"while {figures.idle_while_waiting or 0.0:.0%} of the slots stood idle{evidence}"
        f"{_parts_of(figures)}: look at "
        f"{look_at}, labels, or another load on them"
    )


def _demand(figures: PlatformFigures) -> str:
    """Return how many slots the work would fill, with what passes between jobs if that counts."""
    work = figures.offered_load + figures.other_load
    with_turnarounds = (figures.utilization or 0.0) * figures.mean_slots
    if with_turnarounds - work < LIMITS.min_slots_between:
        return f"demand {work:.1f} slots"
    turnaround = format_roughly(figures.turnaround.p50 or 0.0)
    return f"demand {with_turnarounds:.1f} slots, with {turnaround} between two jobs"


def _rates(figures: PlatformFigures) -> str:
    """Return how many jobs came, and how many can be served."""
    came = figures.arrivals_per_hour
    served = figures.served_per_hour or 0.0
    times = 1.0
    period = "an hour"
    digits = 0
    if max(came, served) < LIMITS.min_hourly_rate:
        times = 24.0
        period = "a day"
        digits = 1
    text = (
        f"{times * came:,.{digits}f} jobs {period} came, and {times * served:,.{digits}f} can be "
        "served"
    )
    if figures.mean_slots < LIMITS.min_share_there * figures.slots_seen and not figures.other_load:
        by_all = times * served * figures.slots_seen / figures.mean_slots
        text += (
            f" by the slots that were there on average ({by_all:,.{digits}f} by all "
            f"{figures.slots_seen:g}, if they are there all the time)"
        )
    return text


def _spare_slots(figures: PlatformFigures, objective: float) -> str:
    """Return that fewer slots would have done, if they are its own; else nothing."""
    needed = figures.servers_needed
    if needed is None or needed >= figures.slots_seen or figures.other_load:
        return ""
    return (
        f"; {needed} of the {figures.slots_seen:.0f} slots would keep p95 within "
        f"{format_roughly(objective)}"
    )


def _worst_hour(figures: PlatformFigures) -> str:
    """Return the hour of the week in which jobs waited longest; nothing, if it is not known."""
    if figures.peak_wait_p95 is None:
        return ""
    return f"; worst: {figures.peak_hour} (p95 {format_roughly(figures.peak_wait_p95)})"


def _slots_that_would_do(figures: PlatformFigures, objective: float) -> str:
    """Return with how many slots the objective would be met; nothing, if that is not known."""
    if figures.servers_needed is None:
        return ""
    for_all = " for all that its runners run" if figures.other_load else ""
    slots = f"{many(figures.servers_needed, 'slot')}{for_all}"
    return f"; {slots} would keep p95 within {format_roughly(objective)}"
