"""What in a pool's records no queue of slots explains: it is named, and not fitted.

Jobs that wait while a runner of theirs stands idle wait for something else. If jobs that have a
value in common (a label, a name, a column) waited so only while a constant number of them ran, that
is a cap on them; if only they waited so, and at any number, a gate before them. If all jobs waited
so, it is a cap on the whole pool where a constant number ran; a dispatcher that was down where none
started for a while; something that held some of the jobs where younger ones started; runners that
are not all for all labels where some labels ran on a part of them; or else another load.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Flags, Floats
from farm.core.fields import json_name
from farm.records.attempt import Attempt
from farm.units import format_roughly
from farm_twin.diagnosis.figures import MIN_STALL_TIME, MIN_STALLED_JOBS
from farm_twin.diagnosis.occupancy import counts_at, unlike_slots
from farm_twin.twins.pool_shapes import PoolLoad, Shape
from farm_twin.twins.runner_lives import CLOCKS

Kind = Literal[
    "never saturated",
    "lost attempts",
    "hidden order",
    "cap",
    "gate",
    "idle runners",
    "subset",
    "stall",
    "several slots",
]

RARELY = 0.02
"""Share of the waiting below which a pool never was full."""
IDLE = 0.15
"""Share of the waiting with idle runners, from which something else than slots is waited for."""
NAMED = 0.05
"""The same where a cap or a gate explains it."""
HELD, LONG = 10, 60.0
"""Jobs that each waited for this long (s) beside idle runners, from which a cap or a gate that
holds nearly all of them is named, however small its share of the waiting."""
OWN = ("cap", "gate")
MOSTLY = 0.9
"""Share of its own idle waiting in which a group runs a constant number, for a cap."""
APART = 0.6
"""Share of all idle waiting that is of one group, for a cap or gate of its own."""
OVERTAKEN = 0.05
"""Share of starts that overtook an older job, from which the order is not that of arrival."""
SHORT_STALL, FEWEST_STALLS = 300.0, 3
"""Seconds without a start on idle runners that are a stall, of this number of such times."""
OVERTOOK = 0.8
"""Share of the held jobs that younger ones of their label overtook, from which these were held."""
ON_EACH = 10
"""Times as many jobs of a label as runners that ran them, from which it has no other runners."""
MOST_VALUES = 200
LEAST_WAIT = 30.0
"""Mean wait below which nothing is looked for, seconds."""


class Flag(msgspec.Struct, frozen=True, rename=json_name):
    """Something that the records show and that no pool of slots explains."""

    kind: Kind
    text: str
    #: little of the waiting is explained by it: it says nothing against the twin
    small: bool = False
    #: jobs of the whole pool that run at once, at most: its twin has as many slots
    limit: int | None = None


def flags_of(shape: Shape, load: PoolLoad) -> Iterator[Flag]:
    """Yield what is to be known before a twin of a pool is believed."""
    if shape.missing or shape.tries.lost:
        yield Flag("lost attempts", _lost(shape, len(load.attempts)))
    if unlike := unlike_slots(np.array([attempt.slots for attempt in load.attempts])):
        yield Flag("several slots", unlike)
    idle = _IdleWaiting(shape, load)
    waits = bool(load.waited.mean() >= LEAST_WAIT)
    found = idle.explained() if (waits and idle.share >= NAMED) or idle.held_jobs >= HELD else None
    # a new runner of one job starts for each: there is none that could be idle
    share = IDLE if not shape.ephemeral else math.inf
    is_clear = found is not None and found.kind in (*OWN, "stall")
    if found is not None and not is_clear and not (waits and idle.share >= share):
        found = None
    if found is not None:
        yield (found := msgspec.structs.replace(found, small=not (waits and idle.share >= NAMED)))
    if (found is None or found.small) and shape.is_fixed and shape.saturated < RARELY:
        yield Flag(
            "never saturated",
            f"its {shape.runners * shape.slots} slots were never all busy while jobs waited: "
            "there are at least that many",
        )
    if waits and idle.stall and (found is None or found.kind == "idle runners"):
        yield Flag(
            "stall",
            f"for {format_roughly(idle.stall)} jobs waited and none started on idle runners",
        )


def _lost(shape: Shape, jobs: int) -> str:
    # A recorded attempt is a job of the replay, so a loss that is in the records must not be drawn
    # again. Attempts that are not took slots, too: these are lost and tried again in the twin.
    parts = []
    if shape.tries.lost:
        parts.append(
            f"{shape.tries.lost:,} attempts ended with their runner ({shape.tries.lost / jobs:.1%} "
            "of the jobs); they are replayed as recorded, and none is lost again"
        )
    if shape.missing:
        parts.append(
            f"{shape.missing:,} earlier attempts are not in the records: {shape.loss_rate:g} "
            "losses per builder-hour are drawn instead, so another run differs"
        )
    return "; ".join(parts)


def overtaking(load: PoolLoad, shape: Shape) -> float:
    """Return the share of starts, of those while others waited, that overtook an older job."""
    started = load.arrived + load.waited
    order = np.argsort(started, kind="stable")
    waited = load.waited > max(CLOCKS, 2 * shape.pickup_time)
    arrivals = load.arrived.tolist()
    has_waited = waited.tolist()
    # of the jobs that started already: levels, and the last arrival of each level and those below;
    # levels that do not raise it are not kept, so both ascend
    levels: list[int] = []
    last_arrivals: list[float] = []
    overtaken = 0
    for place in order.tolist():
        attempt = load.attempts[place]
        level = attempt.level
        arrived_at = arrivals[place]
        below = bisect_right(levels, level)
        last_arrival = last_arrivals[below - 1] if below else -math.inf
        # a job that starts after a younger one was overtaken, if that has no higher level
        if has_waited[place] and arrived_at < last_arrival - CLOCKS:
            overtaken += 1
        # what is tried again may go back to its old place
        if attempt.attempt > 1 or arrived_at <= last_arrival:
            continue
        replaced = slice(bisect_left(levels, level), bisect_right(last_arrivals, arrived_at))
        levels[replaced] = [level]
        last_arrivals[replaced] = [arrived_at]
    return overtaken / max(1, int(waited.sum()))


def hidden_order(overtaken: float) -> Flag:
    """Return the flag of an order of which the records do not have the key."""
    return Flag(
        "hidden order",
        f"{overtaken:.0%} of the starts were of jobs that a younger one had overtaken, and no "
        "column explains the order: the mean may hold, the p95 does not",
    )


def labels_of_a_part(shape: Shape, load: PoolLoad, overtaken: float) -> Flag | None:
    """Return that jobs overtook others as not all runners are for all labels; None: these are."""
    for label in shape.platforms:
        attempts = [attempt for attempt in load.attempts if attempt.platform == label]
        part = "" if shape.ephemeral else _part_of_runners(attempts, shape.ever)
        if part:
            return Flag(
                "subset", f"{overtaken:.0%} of the starts were of jobs that a younger one had "
                f"overtaken: {part}",
            )  # fmt: skip
    return None


def _part_of_runners(attempts: Sequence[Attempt], ever: int) -> str:
    """Return that jobs of a label ran on some of the runners only; empty: on all."""
    count = len({attempt.runner for attempt in attempts})
    if count >= ever or len(attempts) < ON_EACH * count:
        return ""
    return (
        f"jobs of {attempts[0].platform or 'no label'}, which waited so, only ever ran on "
        f"{count:,} of the {ever:,} runners, so the others are not for them"
    )


def _usual_limit(running: Floats, lasts: Floats) -> int:
    """Return the largest number of jobs that ran at once for more than a moment.

    ``running`` jobs ran for the times that it ``lasts``. In a large pool that is used round the
    clock hundreds of numbers share the time, and none has much of it: then the largest of all is
    taken.
    """
    times = np.bincount(running.astype(int), lasts).astype(np.float64)[1:]
    usual = np.flatnonzero(times > RARELY * times.sum())
    if not len(usual):
        usual = np.flatnonzero(times)
    return 1 + int(usual[-1]) if len(usual) else 0


class _IdleWaiting:
    """The waiting that passed while a runner of the pool stood idle."""

    def __init__(self, shape: Shape, load: PoolLoad) -> None:
        self.shape, self.load = shape, load
        begins = load.arrived
        started = begins + load.waited
        # a slot is taken until it can be taken again
        ended = started + load.ran + shape.turnaround
        self.at = np.unique(np.concatenate([begins, started, ended]))
        waiting, busy = counts_at(self.at, begins, started), counts_at(self.at, started, ended)
        there = self._there(load.attempts, load.begins)
        free = np.maximum(0.0, there * shape.slots - busy)
        lasts = np.append(np.diff(self.at), 0.0)
        self.idle = free >= max(1.0, 0.05 * shape.runners * shape.slots)
        whole = float((waiting * lasts).sum())
        self.lasts, self.whole = lasts, whole
        self.share = float((waiting * lasts)[self.idle].sum()) / whole if whole else 0.0
        self.stall = self._stall(waiting, started)
        passed = np.append(0.0, np.cumsum(self.idle * lasts))
        #: how long each job waited beside idle runners
        self.own = passed[np.searchsorted(self.at, started)]
        self.own -= passed[np.searchsorted(self.at, begins)]
        self.held_jobs = int((self.own >= LONG).sum())
        self.started = started

    def _there(self, attempts: Sequence[Attempt], zero: float) -> Floats:
        if self.shape.ephemeral or not self.shape.ever:
            return np.full(len(self.at), float(self.shape.runners))
        lives: dict[str, tuple[float, float]] = {}
        for one in attempts:
            start, end = (one.started_at or 0.0) - zero, (one.finished_at or 0.0) - zero
            first, last = lives.get(one.runner, (start, end))
            lives[one.runner] = min(first, start), max(last, end)
        begins, ends = np.array(list(lives.values())).T
        return counts_at(
            self.at, np.clip(begins, None, self.at[-1]), np.clip(ends, None, self.at[-1])
        )

    def _stall(self, waiting: Floats, started: Floats) -> float:
        """Return the longest time without a start while jobs waited and runners were idle."""
        starts = np.unique(started)
        longest = 0.0
        for before, after in pairwise(starts.tolist()):
            if after - before < MIN_STALL_TIME:
                continue
            some = (self.at >= before) & (self.at < after)
            held = some & self.idle & (waiting >= MIN_STALLED_JOBS)
            longest = max(longest, float(self.lasts[held].sum()))
        return longest if longest >= MIN_STALL_TIME else 0.0

    def explained(self) -> Flag:
        """Return what explains the most of it."""
        says = f"{self.share:.0%} of the waiting passed while runners were idle"
        best: tuple[float, Flag] | None = None
        for name, value, members in self._groups():
            started = self.started[members]
            waiting = counts_at(self.at, self.load.arrived[members], started)
            running = counts_at(self.at, started, started + self.load.ran[members])
            held = self.idle & (waiting > 0)
            weight = (waiting * self.lasts)[held]
            if not weight.sum():
                continue
            explains = float(weight.sum()) / self.whole
            if explains < APART * self.share:
                continue
            if self.share < NAMED and (self.own[members] >= LONG).sum() < MOSTLY * self.held_jobs:
                continue
            counts = running[held]
            # instants that are rounded, or late, overlap for a moment
            most = _usual_limit(running, self.lasts)
            capped = float(weight[counts >= most].sum() / weight.sum())
            what = f"{name} {value}"
            share = len(members) / len(self.load.attempts)
            if name == "label" and (part := self._part(members, held, weight)):
                flag = Flag("subset", f"{says}: {part}")
                score = 2 + explains - share
            elif capped >= MOSTLY and share < 1 - 1e-9:
                flag = Flag(
                    "cap",
                    f"{says}; a cap of {most} at once on {what} explains {explains:.0%}",
                )
                score = 2 + explains - share
            elif share < 0.5 and explains >= MOSTLY * self.share:
                flag = Flag(
                    "gate",
                    f"{says}; {explains:.0%} by {what} alone, however many of it ran: something "
                    "before the queue holds these (an approval, an environment)",
                )
                score = 1 + explains - share
            else:
                continue
            if best is None or score > best[0]:
                best = score, flag
        if best is not None:
            return best[1]
        other = Flag("idle runners", f"{says}: another load on them, or a slow dispatcher")
        if self.shape.ephemeral:
            return other
        if self.share < IDLE:
            return self._stalls(says) or other
        reasons = (self._cap_on_all, self._stalls, self._subset, self._held)
        return next(filter(None, (reason(says) for reason in reasons)), other)

    def _cap_on_all(self, says: str) -> Flag | None:
        """Return that the whole pool never ran more than a number below its slots."""
        load = self.load
        waiting = counts_at(self.at, load.arrived, self.started)
        running = counts_at(self.at, self.started, self.started + load.ran)
        held = self.idle & (waiting > 0)
        weight = (waiting * self.lasts)[held]
        most = _usual_limit(running, self.lasts)
        if not weight.sum() or most >= self.shape.runners * self.shape.slots:
            return None
        if weight[running[held] >= most].sum() < MOSTLY * weight.sum():
            return None
        slots = self.shape.runners * self.shape.slots
        return Flag(
            "cap",
            f"{says}, and while {most:,} jobs ran: a cap of {most:,} at once on the whole pool, "
            f"which has {slots:,} slots; its twin has {most:,}, and more of them are a higher cap",
            limit=most,
        )

    def _stalls(self, says: str) -> Flag | None:
        """Return that none started on idle runners for a while, several times."""
        waiting = counts_at(self.at, self.load.arrived, self.started)
        starts = np.unique(self.started)
        gaps = np.flatnonzero(np.diff(starts) >= SHORT_STALL)
        times: list[float] = []
        waited = 0.0
        for number in gaps.tolist():
            first, last = np.searchsorted(self.at, starts[number : number + 2])
            held = self.idle[first:last] & (waiting[first:last] >= MIN_STALLED_JOBS)
            lasts = self.lasts[first:last][held]
            if lasts.sum() >= SHORT_STALL:
                times.append(starts[number + 1] - starts[number])
                waited += float((waiting[first:last][held] * lasts).sum())
        if len(times) < FEWEST_STALLS or waited < APART * self.share * self.whole:
            return None
        usual = format_roughly(float(np.median(times)))
        return Flag(
            "stall",
            f"{says}: {len(times):,} times, for {usual} as a rule, none started although jobs "
            "waited (a dispatcher that was down, or a maintenance)",
        )

    def _subset(self, says: str) -> Flag | None:
        """Return that jobs of a label, which waited so, ran on a part of the runners only."""
        jobs: dict[str, list[int]] = defaultdict(list)
        for place, attempt in enumerate(self.load.attempts):
            jobs[attempt.platform].append(place)
        total = float(self.own.sum())
        for places in jobs.values():
            part = _part_of_runners([self.load.attempts[n] for n in places], self.shape.ever)
            if part and total and self.own[places].sum() >= APART * total:
                return Flag("subset", f"{says}: {part}")
        return None

    def _part(self, places: NDArray[np.int64], held: Flags, weight: Floats) -> str:
        """Return that jobs of a label ran on a part of the runners, busy while it was ``held``."""
        attempts = self.load.attempts
        part = _part_of_runners([attempts[place] for place in places.tolist()], self.shape.ever)
        if not part:
            return ""
        runners = {attempts[place].runner for place in places.tolist()}
        rows = np.array([attempt.runner in runners for attempt in attempts])
        ends = self.started + self.load.ran + self.shape.turnaround
        busy = counts_at(self.at, self.started[rows], ends[rows])[held]
        is_full = busy >= len(runners) * self.shape.slots
        return part if weight[is_full].sum() >= MOSTLY * weight.sum() else ""

    def _held(self, says: str) -> Flag | None:
        """Return that jobs waited beside idle runners while younger ones of their label started."""
        attempts = self.load.attempts
        held = np.flatnonzero(self.own >= LONG)
        if len(held) < HELD:
            return None
        overtaken = 0
        for label in {attempts[place].platform for place in held.tolist()}:
            own = np.array([place for place, one in enumerate(attempts) if one.platform == label])
            # the first start of a younger job, by arrival
            first = np.minimum.accumulate(self.started[own][::-1])[::-1]
            next_first = np.append(first[1:], np.inf)
            is_held = np.isin(own, held)
            overtaken += int((next_first < self.started[own] - LONG)[is_held].sum())
        if overtaken < OVERTOOK * len(held) or len(held) > 0.5 * len(attempts):
            return None
        share = len(held) / len(attempts)
        return Flag(
            "gate",
            f"{says}: {len(held):,} jobs ({share:.0%}) were held while younger ones of the same "
            f"labels started ({attempts[held[0]].id}, for example): by an approval, a lock, or "
            "jobs that they need",
        )

    def _groups(self) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
        attempts = self.load.attempts
        columns = {"label": [one.platform for one in attempts], "name": [o.kind for o in attempts]}
        columns["user"] = [one.user for one in attempts]
        for name in sorted({key for one in attempts for key in one.attributes}):
            columns[name] = [one.attributes.get(name, "") for one in attempts]
        for name, values in columns.items():
            members: dict[str, list[int]] = defaultdict(list)
            for place, value in enumerate(values):
                members[value].append(place)
            if len(members) <= MOST_VALUES:
                for value, places in members.items():
                    if value and len(places) >= 5:
                        yield name, value, np.array(places)
