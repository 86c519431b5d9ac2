"""What a farm's own records say: by platform, its load, its servers, its waits, and why they wait.

The figures are those of queueing theory (arrival rate, service time S, servers, offered load as
rate · E[S], utilization), with what people get wrong when they compute them by hand: servers are
counted from what ran, not from a roster; jobs that were cancelled while they waited belong to the
load, and their waits were at least as long; and a high utilization explains waits only where
runners were busy *while* jobs waited.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from operator import attrgetter

import msgspec
import numpy as np

from farm.core.fields import json_name
from farm.doctor.occupancy import Spans, Steps, refuse_more_than_slots, steps_of, unlike_slots
from farm.forecasts.runtime.survival import survival
from farm.records.attempt import Attempt, grouped
from farm.records.bundle import Bundle
from farm.records.columns import CALENDAR
from farm.records.reading import OnShare, part, unseen
from farm.records.runners import ROUNDING, Runner, Span, most_at_once, successions, times_between
from farm.results.descriptive_statistics import Spread, quantile, spread_of
from farm.results.table.columns import Floats

STALL = 1800.0
"""Seconds without a start, while jobs wait and none runs, that are a stall and not a queue."""
AT_ONCE = 0.1
"""Jobs came at once if they came within this share of the time that it took to run them."""
STALLED = 5
"""Jobs that wait in a stall, at least."""
ENOUGH = 10
"""Times between two jobs, from which one is taken."""
MOST_SERVERS = 10_000
"""Servers beyond which none are proposed."""


class PlatformFigures(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The figures of a platform; spans in seconds, rates per hour."""

    platform: str
    hosted: bool
    attempts: int
    arrivals_per_hour: float
    run_time: Spread
    #: runners that ran a job of it, those of one job only, and slots at most and on average
    runners: int
    ephemeral: bool
    slots_seen: float
    mean_slots: float
    #: of the median runner
    runner_slots: int
    #: jobs that ran at once, at most
    busy_at_once: int
    #: rate · E[S]: slots that are busy on average if every job runs at once; jobs that never ran
    #: count with the mean run time of their name
    offered_load: float
    #: what those runners ran for other platforms, slots on average
    other_load: float
    #: (offered + other + what passes between two jobs) ÷ mean slots; None: they are not known
    utilization: float | None
    #: jobs that the slots can serve at most, beside that other load, with what passes between
    served_per_hour: float | None
    busy_share: float | None
    busy_share_while_waiting: float | None
    #: the share of slots that were free, weighted by how many jobs waited
    idle_while_waiting: float | None
    #: the share of all waiting that passed while about as many jobs ran as ever did
    full_while_waiting: float | None
    waits: Spread
    #: with those that were broken off (Kaplan-Meier)
    wait_p50: float | None
    wait_p95: float | None
    #: waits that were broken off, and how long they had lasted
    censored: int
    censored_wait: Spread
    unknown_waits: int
    #: between two jobs on a slot, where the second was already waiting
    turnaround: Spread
    #: attempts after the first, and the share of busy time of those that were tried again
    retries: int
    wasted_share: float
    #: the worst hour of the week by p95 wait, as "Mon 09 h"
    peak_hour: str
    peak_wait_p95: float | None
    #: the longest time in which jobs waited and nothing ran
    stall_time: float
    #: what is to be said if jobs take unlike numbers of slots
    unlike_slots: str
    #: servers with which the p95 wait would have been within the objective
    servers_needed: int | None


class FarmFigures(msgspec.Struct, frozen=True, rename=json_name):
    """What the records of a farm say."""

    hours: float
    resolution_time: float
    platforms: list[PlatformFigures]


def examine(
    bundle: Bundle, zone: tzinfo | None, objective: float, on_share: OnShare = unseen
) -> FarmFigures:
    """Return the figures of every platform, the busiest first; ``objective``: p95 wait, seconds.

    ``on_share`` is given how much is done, 0 to 1.
    Raises TraceError if more ran than the slots that the farm is said to have.
    """
    refuse_more_than_slots(bundle)
    found, done = [], 0.0
    for one in platforms_of(bundle):
        share = len(one.attempts) / len(bundle.attempts)
        found.append(one.figures(zone, objective, part(on_share, done, share)))
        done += share
    found.sort(key=lambda one: (-one.offered_load, one.platform))
    begins, ends = _window(bundle.attempts)
    return FarmFigures((ends - begins) / 3600, bundle.manifest.resolution_time, found)


def platforms_of(bundle: Bundle) -> list[PlatformRecords]:
    """Return the records of each platform, in order of the first attempt."""
    attempts = bundle.attempts
    named = (one for one in attempts if one.runner and one.started_at is not None)
    by_runner = grouped(named, attrgetter("runner"))
    known = {one.runner: one for one in bundle.runners()}
    resolution = bundle.manifest.resolution_time + ROUNDING
    tries = Counter(one.job or one.id for one in attempts)
    return [
        PlatformRecords(name, some, by_runner, known, tries, bundle.arrivals[0], resolution)
        for name, some in grouped(attempts, attrgetter("platform")).items()
    ]


def _window(attempts: Sequence[Attempt]) -> tuple[float, float]:
    """Return the first and the last instant, at least a second apart."""
    begins = min(one.arrived_at for one in attempts)
    ends = (at for one in attempts for at in (one.arrived_at, one.started_at, one.finished_at))
    return begins, max(begins + 1.0, *(at for at in ends if at is not None))


class PlatformRecords:
    """The attempts of a platform, and the runners that it had."""

    def __init__(
        self,
        name: str,
        attempts: list[Attempt],
        by_runner: dict[str, list[Attempt]],
        known: dict[str, Runner],
        tries: Counter[str],
        since: float,
        resolution: float,
    ) -> None:
        self.name = name
        self.attempts = attempts
        begins, ends = _window(attempts)
        # what waited or ran when a part of the records began is no arrival
        self.begins = max(begins, since)
        self.ends = max(ends, self.begins + 1.0)
        names = sorted({one.runner for one in attempts if one.runner in by_runner})
        self.runners = [known[name] for name in names]
        self.on_runners = {name: by_runner[name] for name in names}
        self._tries, self._resolution = tries, resolution
        self.ran = [one for one in attempts if one.ran is not None]
        #: its runners ran hardly more than a job each
        self.is_ephemeral = bool(names) and len(self.ran) < 1.5 * len(names)
        self._held = [
            (one.started_at or 0.0, _end(one, self.ends))
            for some in self.on_runners.values() or [self.ran]
            for one in some
        ]
        self._most = most_at_once(self._held, resolution) if self._held else 0

    def figures(self, zone: tzinfo | None, objective: float, on_share: OnShare) -> PlatformFigures:
        """Return the figures; ``on_share`` is given how much is done, about."""
        ends, loaded = self.ends, self._loaded()
        run_times = np.array([one.ran for one in self.ran], np.float64)
        waits = Waits(self.attempts, ends)
        steps = self.steps()
        on_share(0.3)
        work = self._work()
        comes = [one.arrived_at >= self.begins for one in self.attempts]
        rate = sum(comes) / loaded
        load = sum(lasts for lasts, is_new in zip(work, comes, strict=True) if is_new) / loaded
        elsewhere = [
            one for some in self.on_runners.values() for one in some if one.platform != self.name
        ]
        other = sum(one.ran or 0.0 for one in elsewhere) / (ends - self.begins)
        slots = steps.before(self.begins + loaded).mean_slots
        hour, worst = self._peak(zone)
        on_share(0.5)
        turnaround = spread_of(self._turnarounds())
        on_share(0.7)
        between = (turnaround.p50 or 0.0) if turnaround.count >= ENOUGH else 0.0
        held = load + rate * between
        return PlatformFigures(
            platform=self.name,
            hosted=any(one.hosted for one in self.attempts),
            attempts=len(self.attempts),
            arrivals_per_hour=rate * 3600,
            run_time=spread_of(run_times),
            runners=len(self.runners),
            ephemeral=self.is_ephemeral,
            slots_seen=float(steps.slots.max(initial=0.0)),
            mean_slots=slots,
            runner_slots=int(np.median([one.slots for one in self.runners] or [1])),
            busy_at_once=self._most,
            offered_load=load,
            other_load=other,
            utilization=(held + other) / slots if slots else None,
            served_per_hour=max(0.0, slots - other) * rate / held * 3600 if slots * held else None,
            busy_share=steps.utilization,
            busy_share_while_waiting=steps.utilization_while_waiting,
            idle_while_waiting=steps.idle_while_waiting,
            full_while_waiting=steps.full_while_waiting(self._most),
            waits=spread_of(waits.ended),
            wait_p50=waits.quantile(0.5),
            wait_p95=waits.quantile(0.95),
            censored=len(waits.broken_off),
            censored_wait=spread_of(waits.broken_off),
            unknown_waits=waits.unknown,
            turnaround=turnaround,
            retries=sum(one.attempt > 1 for one in self.attempts),
            wasted_share=self._wasted(float(run_times.sum())),
            peak_hour=hour,
            peak_wait_p95=worst,
            stall_time=self._stall(steps),
            unlike_slots=unlike_slots(self.attempts),
            servers_needed=self._needed(work, between, objective),
        )

    def _loaded(self) -> float:
        """Return the time over which rates are taken, seconds: that in which jobs arrived.

        A queue that is worked off later was more load than there were servers, at the time. Jobs
        that all came at once have no rate: then it is the whole time.
        """
        whole = self.ends - self.begins
        arrived = max(one.arrived_at for one in self.attempts) - self.begins
        return arrived if arrived >= AT_ONCE * whole else whole

    def steps(self) -> Steps:
        """Return the counts over time.

        A runner of one job is there while it runs it: how many there could be is not known, but
        from the first on at least as many as there ever were.
        """
        waited = [
            (
                one.eligible_at,
                one.started_at if one.started_at is not None else _end(one, self.ends),
            )
            for one in self.attempts
            if one.eligible_at is not None
        ]
        alive = [(one.joined_at, one.gone_at) for one in self.runners]
        sizes = np.array([one.slots for one in self.runners], np.float64)
        slots = (_spans(alive), sizes)
        steps = steps_of(_spans(waited), _spans(self._held), slots, self.begins, self.ends)
        if not self.is_ephemeral:
            return steps
        most = np.where(steps.begun, float(self._most), 0.0)
        return msgspec.structs.replace(steps, slots=most)

    def _turnarounds(self) -> list[float]:
        """Return how long slots stood empty between two jobs, of which the second waited."""
        if self.is_ephemeral:  # a slot's next start is on another runner
            return successions(self._spans_of(self.ran), self._most, self._resolution)
        return [
            time
            for one in self.runners
            for time in times_between(
                self._spans_of(self.on_runners[one.runner]), one.slots, self._resolution
            )
        ]

    def _spans_of(self, attempts: Sequence[Attempt]) -> list[Span]:
        return [
            (
                math.inf if one.eligible_at is None else one.eligible_at,
                one.started_at or 0.0,
                _end(one, self.ends),
            )
            for one in attempts
        ]

    def _wasted(self, busy: float) -> float:
        """Return the share of busy time of attempts after which their job was tried again."""
        last: dict[str, int] = {}
        for one in self.attempts:
            last[one.job or one.id] = max(one.attempt, last.get(one.job or one.id, 0))
        wasted = sum(
            one.ran or 0.0
            for one in self.attempts
            if self._tries[one.job or one.id] > 1 and one.attempt < last[one.job or one.id]
        )
        return wasted / busy if busy else 0.0

    def _peak(self, zone: tzinfo | None) -> tuple[str, float | None]:
        """Return the hour of the week with the longest p95 wait, of those with some jobs."""
        by_hour: dict[str, list[float]] = defaultdict(list)
        for one in self.attempts:
            if one.eligible_at is not None and (wait := one.waited) is not None:
                by_hour[_hour(one.eligible_at, zone)].append(wait)
        most = max((len(some) for some in by_hour.values()), default=0)
        worst = [
            (float(np.quantile(some, 0.95)), hour)
            for hour, some in by_hour.items()
            if len(some) >= max(5, most // 10)
        ]
        if not worst:
            return "", None
        wait, hour = max(worst)
        return hour, wait

    def _stall(self, steps: Steps) -> float:
        """Return the longest time in which jobs waited and none ran, after the first that ran.

        Records of a window have jobs that came before it, and not those that ran then.
        """
        stalled = (steps.waiting >= STALLED) & (steps.busy == 0) & steps.begun
        longest = lasted = 0.0
        for is_stalled, lasts in zip(stalled.tolist(), steps.lasts.tolist(), strict=True):
            lasted = lasted + lasts if is_stalled else 0.0
            longest = max(longest, lasted)
        return longest if longest >= STALL else 0.0

    def _work(self) -> list[float]:
        """Return the run time of every attempt; if it never ran, the mean of those of its name."""
        by_kind = grouped(self.ran, attrgetter("kind"))
        means = {kind: _mean_run_time(some) for kind, some in by_kind.items()}
        other = _mean_run_time(self.ran) if self.ran else 0.0
        return [means.get(one.kind, other) if one.ran is None else one.ran for one in self.attempts]

    def _needed(self, work: Sequence[float], between: float, objective: float) -> int | None:
        """Return the servers with which these arrivals' p95 wait is within the objective.

        ``between``: what a slot needs from one job to the next, seconds.
        """
        jobs = [
            (one.eligible_at, lasts + between)
            for one, lasts in zip(self.attempts, work, strict=True)
            if one.eligible_at is not None
        ]
        if len(jobs) < 2:
            return None
        low, high = 0, 1
        while not _do(high, jobs, objective) and high < MOST_SERVERS:
            low, high = high, 2 * high
        found = range(high)
        return bisect_left(found, x=True, lo=low + 1, key=lambda n: _do(n, jobs, objective))


def _mean_run_time(ran: Sequence[Attempt]) -> float:
    return sum(one.ran or 0.0 for one in ran) / len(ran)


def _do(servers: int, jobs: Sequence[tuple[float, float]], objective: float) -> bool:
    """Return whether the p95 wait of jobs, served as they arrive, is within the objective."""
    free = [-math.inf] * servers
    may_wait = len(jobs) - 1 - int(0.95 * (len(jobs) - 1))
    waits = []
    for arrived_at, lasts in jobs:
        started_at = max(arrived_at, free[0])
        heapq.heapreplace(free, started_at + lasts)
        if (wait := started_at - arrived_at) > 0.0:
            waits.append(wait)
            if wait > objective:
                may_wait -= 1
                if may_wait < 0:
                    return False
    waits += [0.0] * (len(jobs) - len(waits))
    return float(np.quantile(waits, 0.95)) <= objective


def _hour(at: float, zone: tzinfo | None) -> str:
    """Return the hour of the week, or of a trace's own time."""
    if at < CALENDAR:
        return f"hour {int(at // 3600)}"
    return datetime.fromtimestamp(at, zone or UTC).strftime("%a %H h")


def _end(one: Attempt, ends: float) -> float:
    return ends if one.finished_at is None else one.finished_at


def _spans(pairs: Sequence[tuple[float | None, float]]) -> Spans:
    both: Floats = np.array(pairs, np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


class Waits:
    """The waits of attempts, seconds: those that ended with a start, and those broken off.

    ``ends``: until when an attempt without an end waits.
    """

    def __init__(self, attempts: Sequence[Attempt], ends: float) -> None:
        self.ended = _floats(one.waited for one in attempts)
        self.broken_off = _floats(
            (ends if one.finished_at is None else one.finished_at) - one.eligible_at
            for one in attempts
            if one.eligible_at is not None and one.started_at is None
        )
        #: waits that are not known
        self.unknown = sum(one.eligible_at is None for one in attempts)

    def quantile(self, p: float) -> float | None:
        """Return the p-quantile; None: too many were broken off to tell."""
        return wait_quantile(self.ended, self.broken_off, p)


def wait_quantile(waits: Floats, broken_off: Floats, p: float) -> float | None:
    """Return the p-quantile of waits, seconds, of which some are only known to be longer.

    ``waits`` ended with a start, ``broken_off`` before one. Without the latter it is the quantile
    of all other figures (type 7); None: too many were broken off to tell (``survival``).
    """
    if not len(broken_off) or not len(waits):
        return quantile(waits, p) if len(waits) else None
    always = [np.full(len(some), -np.inf) for some in (waits, broken_off)]
    order = waits.argsort(kind="stable")
    started = survival(waits, always[0], broken_off, always[1]).weights[order].cumsum()
    passed = np.flatnonzero(started >= p - 1e-12)
    return float(waits[order][passed[0]]) if len(passed) else None


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array([one for one in values if one is not None], np.float64)
