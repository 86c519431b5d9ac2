"""How long jobs waited for a place in their concurrency group before they could start.

Of a group in which a number of jobs have a place, records say when a job got its own: from then on
it waited for a runner. On a faster farm the others leave their places sooner, so what is played is
when the job asked for one: when what it needs had ended, as long after it as jobs of its name come
that find a free place, or when its run was created.

The records prove it: a job waited for its group only if that was full all the time from when it
asked, and it came when another one had just left. What came later than its needs explain, though
there was room, came for another reason, and stays as it was recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from statistics import fmean, median
from typing import Final, NamedTuple

import msgspec

from farm.core.jobs.groups import Group, group_of
from farm.core.jobs.needs import need_of
from farm.records.attempt import Attempt

HANDING_OVER: Final = 30.0
"""Seconds in which a place that was left may be another job's: systems look at their groups so
often."""

NOT_KEPT: Final = 0.05
"""Share of a group's jobs that may come although it is full: where more do, its limit is another
one than the records say."""


class GroupWaits(NamedTuple):
    """Attempts, those that waited for a place with how long."""

    attempts: list[Attempt]
    #: how many waited, and their mean wait for a place, seconds
    held: int
    mean: float


def without_wrong_limits(
    attempts: Sequence[Attempt], tolerance: float
) -> tuple[list[Attempt], list[str]]:
    """Return the attempts, without groups in which more were at once than they allow; and these.

    Args:
        attempts: of all groups.
        tolerance: seconds by which instants may be out of order.
    """
    wrong = {
        group
        for group, members in _members(attempts).items()
        if _beyond(group, members, tolerance) > NOT_KEPT * len(members)
    }
    if not wrong:
        return list(attempts), []
    kept = [
        msgspec.structs.replace(attempt, group="")
        if attempt.group and group_of(attempt.group) in wrong
        else attempt
        for attempt in attempts
    ]
    return kept, sorted(group.name for group in wrong)


def full_since(attempts: Sequence[Attempt], tolerance: float) -> dict[str, float]:
    """Return since when its group was full, of each attempt that came when a place was left.

    Of a run that has one place for all its jobs (``latest``) only the first ones waited for it.

    Args:
        attempts: of all groups.
        tolerance: seconds by which instants may be out of order.
    """
    found: dict[str, float] = {}
    for group, members in _members(attempts).items():
        begins, ends = _full(group, members, HANDING_OVER + tolerance)
        run_began: dict[str, float] = {}
        for attempt in members:
            began = run_began.setdefault(_run_of(attempt), attempt.arrived_at)
            if group.mode == "latest" and attempt.arrived_at > began + tolerance:
                continue
            place = bisect_right(begins, attempt.arrived_at - tolerance) - 1
            if place >= 0 and attempt.arrived_at <= ends[place]:
                found[attempt.id] = begins[place]
    return found


def with_group_waits(
    attempts: Sequence[Attempt], since: Mapping[str, float], tolerance: float
) -> GroupWaits:
    """Return the attempts with how long they waited for a place.

    Args:
        attempts: with what they need.
        since: since when the groups were full that attempts waited for.
        tolerance: seconds by which instants may be out of order.
    """
    if not since:
        return GroupWaits(list(attempts), 0, 0.0)
    ends = {attempt.id: attempt.finished_at for attempt in attempts}
    began: dict[str, float] = {}
    for attempt in attempts:
        if attempt.matrix:
            known = began.get(attempt.matrix, inf)
            began[attempt.matrix] = min(known, attempt.submitted_at)

    def released_at(attempt: Attempt) -> float:
        """Return when what an attempt needs had ended, or its run began, or it was created."""
        needed = [ends.get(need_of(text).job) for text in attempt.needs]
        known = [at for at in needed if at is not None]
        if not known and attempt.attempt <= 1:
            return began.get(attempt.matrix, attempt.submitted_at)
        if attempt.submitted_at < attempt.arrived_at:
            known.append(attempt.submitted_at)
        return max(known, default=attempt.arrived_at)

    free_delays: dict[str, list[float]] = defaultdict(list)
    for attempt in attempts:
        if group_of(attempt.group).mode != "cancel" and attempt.group and attempt.id not in since:
            delay = attempt.arrived_at - released_at(attempt)
            if delay <= HANDING_OVER + tolerance:
                free_delays[attempt.kind].append(max(0.0, delay))
    usual = {kind: median(delays) for kind, delays in free_delays.items()}
    waits: dict[str, float] = {}
    for attempt in attempts:
        full_from = since.get(attempt.id)
        if full_from is None:
            continue
        asked_at = released_at(attempt) + usual.get(attempt.kind, 0.0)
        if asked_at >= full_from - HANDING_OVER - tolerance:
            wait = attempt.arrived_at - max(asked_at, full_from)
            if wait > tolerance:
                waits[attempt.id] = wait
    return GroupWaits(
        attempts=[
            msgspec.structs.replace(attempt, group_wait=waits[attempt.id])
            if attempt.id in waits
            else attempt
            for attempt in attempts
        ],
        held=len(waits),
        mean=fmean(waits.values()) if waits else 0.0,
    )


def _run_of(attempt: Attempt) -> str:
    """Return the run of an attempt, as groups have them."""
    return attempt.matrix or attempt.id


def _members(attempts: Sequence[Attempt]) -> dict[Group, list[Attempt]]:
    """Return the attempts of each group with a limit that ran, in order of arrival."""
    members: dict[Group, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        group = group_of(attempt.group)
        if attempt.group and group.mode != "cancel" and attempt.started_at is not None:
            members[group].append(attempt)
    for same in members.values():
        same.sort(key=lambda attempt: attempt.arrived_at)
    return members


def _places(group: Group, members: Sequence[Attempt]) -> Iterator[tuple[float, float]]:
    """Yield from when to when each place was taken: by a job, or by a run of ``latest``."""
    if group.mode == "limit":
        for attempt in members:
            yield attempt.arrived_at, attempt.finished_at or inf
        return
    runs: dict[str, tuple[float, float]] = {}
    for attempt in members:
        run = _run_of(attempt)
        first, last = runs.get(run, (attempt.arrived_at, 0.0))
        runs[run] = first, max(last, attempt.finished_at or inf)
    yield from runs.values()


def _changes(group: Group, members: Sequence[Attempt]) -> list[tuple[float, int]]:
    """Return when a place was left (-1) or taken (1); at one instant it is left first."""
    places = list(_places(group, members))
    return sorted([*((began, 1) for began, _ in places), *((ended, -1) for _, ended in places)])


def _full(
    group: Group, members: Sequence[Attempt], handing_over: float
) -> tuple[list[float], list[float]]:
    """Return from when to when the group was full; a place that was left may be handed over."""
    begins: list[float] = []
    ends: list[float] = []
    taken = 0
    for at, step in _changes(group, members):
        taken += step
        if step > 0 and taken == group.limit:
            if ends and at <= ends[-1]:
                ends.pop()
            else:
                begins.append(at)
        elif step < 0 and taken == group.limit - 1:
            ends.append(at + handing_over)
    if len(ends) < len(begins):
        ends.append(inf)
    return begins, ends


def _beyond(group: Group, members: Sequence[Attempt], tolerance: float) -> int:
    """Return how many places were taken although all were, for longer than clocks differ."""
    steps = _changes(group, members)
    next_left = inf
    left: list[float] = []
    for at, step in reversed(steps):
        left.append(next_left)
        if step < 0:
            next_left = at
    left.reverse()
    taken = beyond = 0
    for (at, step), left_at in zip(steps, left, strict=True):
        taken += step
        beyond += step > 0 and taken > group.limit and left_at > at + tolerance
    return beyond
