"""One sentence on each platform: why its jobs wait, with the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from farm.doctor.figures import PlatformFigures
from farm.units import format_roughly, many

Kind = Literal[
    "fine",
    "short of servers",
    "not capacity",
    "bursts",
    "lost to retries",
    "stalled",
    "hosted runners",
    "cannot tell",
]

ENOUGH = 20
"""Jobs below which nothing is said."""
BUSY = 0.85
"""Load ÷ slots from which a farm is short of servers, not only at times."""
IDLE = 0.3
"""Share of free slots while jobs wait, from which capacity is not the cause."""
LIMITED = 0.8
"""Share of the waiting at the most jobs at once, from which hosted runners are limited."""
PER_HOUR = 10.0
"""Jobs an hour from which rates are told by the hour, and not by the day."""
WASTED = 0.15
"""Share of busy time of attempts that were tried again, from which that is worth a word."""
BROKEN_OFF = 0.05
"""Share of waits that were broken off, from which that is worth a word."""


class Verdict(msgspec.Struct, frozen=True):
    """What is the matter with a platform."""

    platform: str
    kind: Kind
    text: str


def verdicts(one: PlatformFigures, resolution: float, objective: float) -> Iterator[Verdict]:
    """Yield why the jobs of a platform wait, and what else is lost; ``objective``: p95, seconds."""
    kind, text = _why(one, resolution, objective)
    yield Verdict(one.platform, kind, text)
    if one.attempts < ENOUGH:
        return
    if one.stall_time:
        yield Verdict(
            one.platform,
            "stalled",
            f"for {format_roughly(one.stall_time)} jobs waited and none ran at all: "
            "no queue explains that; leave that time out of any comparison",
        )
    if one.wasted_share >= WASTED:
        yield Verdict(
            one.platform,
            "lost to retries",
            f"{one.wasted_share:.0%} of the busy time was of attempts that were tried again "
            f"({many(one.retries, 'attempt')} after the first)",
        )


def _why(one: PlatformFigures, resolution: float, objective: float) -> tuple[Kind, str]:
    if cannot := too_little(one, resolution):
        return "cannot tell", cannot
    p95 = one.wait_p95
    is_fine = p95 is not None and p95 <= objective
    is_limited = (one.full_while_waiting or 0.0) >= LIMITED
    if one.hosted and (is_fine or not is_limited):
        shown = "more than was seen" if p95 is None else format_roughly(p95)
        return "hosted runners", f"a delay, not a queue of yours: p95 wait {shown}"
    if p95 is not None and p95 <= objective:
        return "fine", f"95 % started within {format_roughly(p95)}{_spare(one, objective)}"
    waited = _waited(one)
    if one.unlike_slots:
        return "cannot tell", f"{waited}, but {one.unlike_slots}"
    if one.hosted:
        return "short of servers", (
            f"{waited}; hosted runners, but never more than {one.busy_at_once} at once, and "
            f"{one.full_while_waiting:.0%} of the waiting passed while that many ran: a limit of "
            f"the plan or a setting{_would_do(one, objective)}"
        )
    if one.runners == 0:
        return "cannot tell", (
            f"{waited}, but the records name no runners; the load is {one.offered_load:.1f} busy "
            f"slots on average{_would_do(one, objective)}"
        )
    idle = one.idle_while_waiting or 0.0
    if idle >= IDLE:
        return "not capacity", _idle(one, waited, idle)
    mean = one.mean_slots
    slots = f"{mean:.1f} slots" if mean % 1 else many(int(mean), "slot")
    if (one.utilization or 0.0) >= BUSY:
        return "short of servers", (
            f"{waited}; {_work(one)} met {slots} (load ÷ slots {one.utilization:.2f}): "
            f"{_rates(one)}{_would_do(one, objective)}"
        )
    was = "was" if mean == 1 else "were"
    return "bursts", (
        f"{waited}, though {slots} {was} busy only {one.busy_share or 0:.0%} of the time; while "
        f"jobs waited {one.busy_share_while_waiting or 0:.0%}{_worst(one)}"
        f"{_would_do(one, objective)}"
    )


def too_little(one: PlatformFigures, resolution: float) -> str:
    """Return why the records of a platform cannot carry the question; nothing, if they can."""
    known = one.waits.count + one.censored
    if not one.run_time.count:
        return f"of {many(one.attempts, 'job')} none ran to its end"
    if known < ENOUGH:
        return f"{known} {'job' if known == 1 else 'jobs'} with a known wait: too few to judge"
    if one.waits.max is not None and one.waits.max <= resolution and not one.censored:
        return (
            "every wait is zero: either there always was room, or these records do not have the "
            "instant from which a job waited"
        )
    return ""


def _waited(one: PlatformFigures) -> str:
    if one.wait_p95 is None:
        return f"{one.censored:,} of {one.attempts:,} jobs were cancelled before they started"
    text = f"p95 wait {format_roughly(one.wait_p95)}"
    if one.censored / one.attempts >= BROKEN_OFF:
        text += f", and {one.censored / one.attempts:.0%} were cancelled before they started"
    return text


def _idle(one: PlatformFigures, waited: str, idle: float) -> str:
    look_at, why = "dispatch, a cap on jobs at once", ""
    between = one.turnaround.p50 or 0.0
    if (full := one.full_while_waiting or 0.0) >= LIMITED:
        look_at = "a cap on jobs at once"
        why = (
            f"; {full:.0%} of the waiting passed while about {one.busy_at_once} jobs ran, as many "
            "as ever"
        )
    elif between >= 10 and between >= 0.1 * (one.run_time.mean or 0.0):
        why = f"; {format_roughly(between)} passed between two jobs of a runner"
    return (
        f"{waited}, while {idle:.0%} of the slots stood idle{why}: look at {look_at}, labels, or "
        "another load on them"
    )


def _work(one: PlatformFigures) -> str:
    """Return how many slots the work would fill, with what passes between jobs if that counts."""
    work = one.offered_load + one.other_load
    held = (one.utilization or 0.0) * one.mean_slots
    if held - work < 0.05:
        return f"work for {work:.1f} slots"
    between = format_roughly(one.turnaround.p50 or 0.0)
    return f"work for {held:.1f} slots, with {between} between two jobs,"


def _rates(one: PlatformFigures) -> str:
    """Return how many jobs came, and how many can be served."""
    came, served = one.arrivals_per_hour, one.served_per_hour or 0.0
    if max(came, served) < PER_HOUR:
        return f"{24 * came:.1f} jobs a day came, and {24 * served:.1f} can be served"
    return f"{came:,.0f} jobs an hour came, and {served:,.0f} can be served"


def _spare(one: PlatformFigures, objective: float) -> str:
    needed = one.servers_needed
    if needed is None or needed >= one.slots_seen or one.other_load:
        return ""
    return (
        f"; {needed} of the {one.slots_seen:.0f} slots would keep p95 within "
        f"{format_roughly(objective)}"
    )


def _worst(one: PlatformFigures) -> str:
    if one.peak_wait_p95 is None:
        return ""
    return f"; worst: {one.peak_hour} (p95 {format_roughly(one.peak_wait_p95)})"


def _would_do(one: PlatformFigures, objective: float) -> str:
    if one.servers_needed is None:
        return ""
    own = " of its own" if one.other_load else ""
    slots = f"{many(one.servers_needed, 'slot')}{own}"
    return f"; {slots} would keep p95 within {format_roughly(objective)}"
