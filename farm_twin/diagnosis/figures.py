"""What a farm's own records say: by platform, its load, its servers, its waits, and why they wait.

The figures are those of queueing theory (arrival rate, service time S, servers, offered load as
rate · E[S], utilization), with what people get wrong when they compute them by hand: servers are
counted from what ran, not from a roster; jobs that were cancelled while they waited belong to the
load, and their waits were at least as long; and a high utilization explains waits only where
runners were busy *while* jobs waited.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Flags, Floats, distinct
from farm.core.fields import json_name
from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle, Manifest
from farm.records.reading import OnShare, part, unseen
from farm.records.runners import (
    ROUNDING,
    JobSpans,
    Runner,
    RunnerRows,
    most_at_once,
    successions,
    times_between,
)
from farm.records.sifting import CLOCK_OFF
from farm.results.descriptive_statistics import Spread, quantile, spread_of
from farm_twin.diagnosis.holes import holes_in, time_in
from farm_twin.diagnosis.occupancy import (
    Spans,
    Steps,
    counts_at,
    most_in_use,
    refuse_more_than_slots,
    steps_of,
    unlike_slots,
)
from farm_twin.diagnosis.servers import servers_needed
from farm_twin.diagnosis.wait_parts import WaitParts, is_overtaken, wait_parts
from farm_twin.diagnosis.waits import Waits, worst_hour

MIN_STALL_TIME = 1800.0
"""Seconds without a start, while jobs wait and none runs, that are a stall and not a queue."""
MIN_STALLED_JOBS = 5
"""Jobs that wait in a stall, at least."""
MIN_SHARE_OF_ARRIVALS = 0.1
"""Jobs came at once if they came within this share of the time that it took to run them."""
MIN_TURNAROUNDS = 10
"""Times between two jobs of a slot, from which their median is taken for all."""
MIN_NEW_RUNNERS = 6
"""Runners that came one after the other, from which a farm is seen to grow on demand."""
MAX_SHARE_AT_ONCE = 1 / 3
"""Share of the runners that ever were that may have been there at once, if it grows on demand."""
MAX_SHARE_OF_LIFE = 0.2
"""Share of the records' time that the median runner of such a farm is there."""
MIN_PERIODS_OF_WAITING = 3
"""Times that a queue began, after which runners seem to come for jobs each time."""
MAX_CORRELATION = 0.9
"""Of the waits for new runners with the jobs that waited already: from here on jobs are started
one by one, whatever the runners do."""
MAX_JOBS_OF_EPHEMERAL = 1.5
"""Mean number of jobs of a runner, below which it is one that runs a single job."""
MIN_BOOT = 15.0
"""Seconds of a wait that may be for a runner's start."""
MIN_SHARE_OF_BOOTS = 0.3
"""Share of all waiting of jobs whose runner did nothing then, from which runners come back."""
MAX_SHARE_OVERTAKEN = 0.2
"""Share of these that younger jobs overtook: more are held by something else."""
MIN_SHARE_AT_MOST = 0.5
"""Share of the waiting while about as many slots were in use as ever, from which there are no more.
"""


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
    #: that it is said to have; None: nothing is said, or they are not its alone
    slots_told: float | None = None
    #: the most slots in use, taken for all there are, where jobs take several and no number is told
    slots_in_use: float | None = None
    #: runners come for jobs, and leave
    grows: bool = False
    #: waits that ended with the first job of a new runner, and how long they were
    new_runner_wait: Spread
    #: the shortest wait but for one in a hundred, and from the submission the p95
    shortest_wait: float | None = None
    wait_since_submission_p95: float | None = None
    #: the platforms whose jobs its runners ran, too
    shared_with: tuple[str, ...] = ()
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
    #: of these, such that still waited when the records ended
    still_waiting: int
    unknown_waits: int
    #: starts are by other clocks than arrivals: a wait of zero is none that is not known
    arrivals_are_measured: bool = False
    #: between two jobs on a slot, where the second was already waiting
    turnaround: Spread
    #: attempts after the first, and the share of busy time of those that were tried again
    retries: int
    wasted_share: float
    #: the worst hour of the week by p95 wait, as "Mon 09 h"
    peak_hour: str
    peak_wait_p95: float | None
    #: what the jobs that started waited for
    wait_parts: WaitParts
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
    #: in which nothing is recorded, though something happened: first and last instant of each
    holes: list[tuple[float, float]] = []


def examine(
    bundle: Bundle,
    zone: tzinfo | None,
    objective: float,
    on_share: OnShare = unseen,
    attempts: AttemptColumns | None = None,
) -> FarmFigures:
    """Return the figures of every platform, the busiest first.

    Args:
        bundle: the records of a farm.
        zone: in which hours are told.
        objective: of the p95 wait, seconds.
        on_share: given how much is done, 0 to 1.
        attempts: of the bundle, where they are known as columns.

    Raises TraceError if more ran than the slots that the farm is said to have.
    """
    refuse_more_than_slots(bundle)
    if attempts is None:
        attempts = AttemptColumns.of(bundle.attempts)
    was_retried = retried(bundle.attempts, attempts.number)
    figures = []
    done = 0.0
    holes = holes_in(attempts)
    for records in platforms_of(attempts, bundle.manifest):
        records.holes = holes
        share = len(records.rows) / len(bundle.attempts)
        on_share_of_platform = part(on_share, done, share)
        figures.append(
            records.figures(zone, objective, was_retried[records.rows], on_share_of_platform)
        )
        done += share
    figures.sort(key=lambda platform: (-platform.offered_load, platform.platform))
    begins, ends = _window(attempts)
    hours = (ends - begins) / 3600
    return FarmFigures(hours, bundle.manifest.resolution_time, figures, holes)


def platforms_of(attempts: AttemptColumns, manifest: Manifest) -> Iterator[PlatformRecords]:
    """Yield the records of each platform, by its first attempt."""
    arrivals_begin = float(attempts.arrived_at.min())
    if manifest.window is not None:
        arrivals_begin, _ = manifest.window
    resolution = manifest.resolution_time
    by_runner = RunnerRows.of(attempts)
    runners = by_runner.runners(attempts, resolution)
    place_of = {name: place for place, name in enumerate(by_runner.names)}
    has_started = np.flatnonzero(~np.isnan(attempts.started_at))
    servers_of_runners: dict[tuple[str, ...], int | None] = {}
    for name, rows in attempts.rows_by_platform():
        # one that is named may have started jobs of other platforms alone
        runner = attempts.runner[rows]
        named = {runner.values[code] for code in np.unique(runner.codes).tolist()}
        places = sorted(place_of[runner] for runner in named if runner in place_of)
        rows_of_runners = by_runner.taken(places)
        # slots that are told are the farm's: a platform has them that has all its runners
        told = manifest.capacity if len(places) == len(by_runner.names) else None
        if told is not None and not places:
            rows_of_runners = RunnerRows([], has_started, np.array([0]))
        yield PlatformRecords(
            name=name,
            rows=rows,
            attempts=attempts.taken(rows),
            runners=[runners[place] for place in places],
            on_runners=attempts.taken(rows_of_runners.rows),
            edges=rows_of_runners.edges,
            arrivals_begin=arrivals_begin,
            resolution=resolution + ROUNDING,
            told=told,
            are_measured=CLOCK_OFF in manifest.noted,
            servers_of_runners=servers_of_runners,
        )


def retried(attempts: Sequence[Attempt], numbers: Floats) -> Flags:
    """Return after which attempts their job was tried again on the same platform.

    ``numbers``: which try of its job each is.
    """
    # most jobs are tried once: only those that have a later attempt are looked at
    last_number: dict[tuple[str, str], float] = {}
    for row in np.flatnonzero(numbers > numbers.min()).tolist():
        attempt = attempts[row]
        key = (attempt.job or attempt.id, attempt.platform)
        last_number[key] = max(numbers[row], last_number.get(key, -np.inf))
    was_retried = np.zeros(len(attempts), np.bool_)
    if not last_number:
        return was_retried
    jobs = {job for job, _ in last_number}
    for row, attempt in enumerate(attempts):
        job = attempt.job or attempt.id
        if job in jobs:
            was_retried[row] = numbers[row] < last_number.get((job, attempt.platform), -np.inf)
    return was_retried


def _window(attempts: AttemptColumns) -> tuple[float, float]:
    """Return the first and the last instant, at least a second apart."""
    begins = float(attempts.arrived_at.min())
    instants = (attempts.arrived_at, attempts.started_at, attempts.finished_at)
    return begins, max(begins + 1.0, float(np.nanmax(np.concatenate(instants))))


class PlatformRecords:
    """The attempts of a platform, and the runners that it had.

    Args:
        name: the platform's.
        rows: its attempts' among all of the bundle.
        attempts: those rows.
        runners: those that its attempts name, in order of their names.
        on_runners: what the first of these runners ran, also of other platforms, then the second, …
        edges: where the rows of each runner begin, and where the last one's end.
        arrivals_begin: when the first job of the records arrived.
        resolution: seconds by which instants may be out of order without meaning it.
        told: how many slots there are, as the user or the source says; None: it is not said.
            Without names of runners, all jobs of the records are then on them.
        are_measured: starts are by other clocks than arrivals.
        servers_of_runners: the servers needed for all jobs of runners, computed for other
            platforms that have the same.
    """

    def __init__(
        self,
        name: str,
        rows: NDArray[np.int64],
        attempts: AttemptColumns,
        runners: Sequence[Runner],
        on_runners: AttemptColumns,
        edges: NDArray[np.int64],
        arrivals_begin: float,
        resolution: float,
        told: float | None = None,
        *,
        are_measured: bool = False,
        servers_of_runners: dict[tuple[str, ...], int | None] | None = None,
    ) -> None:
        self.name = name
        #: time of which there are no records: no rate counts it
        self.holes: list[tuple[float, float]] = []
        self._are_measured = are_measured
        self._servers_of_runners = {} if servers_of_runners is None else servers_of_runners
        self._told = told
        self.rows = rows
        self.attempts = attempts
        begins, ends = _window(attempts)
        # what waited or ran when a part of the records began is no arrival
        self.begins = max(begins, arrivals_begin)
        self.ends = max(ends, self.begins + 1.0)
        self._runners = runners
        self._on_runners = on_runners
        self._edges = edges
        self._resolution = resolution
        self._has_run = ~np.isnan(attempts.ran)
        jobs_run = int(self._has_run.sum())
        #: its runners ran hardly more than a job each
        self._is_ephemeral = bool(runners) and jobs_run < MAX_JOBS_OF_EPHEMERAL * len(runners)
        #: slots that each job counts for: where only their number is known, as many as it took
        self._width: Floats | float = 1.0
        held = on_runners if runners or told is not None else attempts.taken(self._has_run)
        self._unlike_slots = unlike_slots(attempts.slots)
        #: jobs count for the slots that they took: what a runner has is not told by their number
        self._counts_slots = (
            told is not None
            or bool(self._unlike_slots)
            or (not runners and bool(np.any(attempts.slots != 1.0)))
        )
        weights: Floats | float = 1.0
        if self._counts_slots:
            self._width = attempts.slots
            weights = held.slots
        self._held = Spans(held.started_at, self._ends_of(held), weights)
        self._slots_of_runners = np.array([runner.slots for runner in runners], np.float64)
        if self._counts_slots and runners:
            self._slots_of_runners = np.array(
                [most_in_use(self._held, slice(*rows)) for rows in pairwise(edges)]
            )
        self._most_busy = 0
        if len(self._held.begins):
            self._most_busy = most_at_once(self._held.begins, self._held.ends, resolution)

    def figures(
        self, zone: tzinfo | None, objective: float, was_retried: Flags, on_share: OnShare
    ) -> PlatformFigures:
        """Return the figures; ``on_share`` is given how much is done, about."""
        attempts = self.attempts
        run_times = attempts.ran[self._has_run]
        waits = Waits.of(attempts, self.ends)
        steps = self.steps()
        on_share(0.3)

        loaded_time = self._loaded_time()
        held_time = self._work()
        work = held_time * self._width
        is_arrival = attempts.arrived_at >= self.begins
        rate = int(is_arrival.sum()) / loaded_time
        load = _sum(work[is_arrival]) / loaded_time
        other_load = self._time_for_others() / (self.ends - self.begins)
        mean_slots = steps.before(self._loaded_until()).mean_slots
        peak_hour, peak_wait = worst_hour(attempts, zone)
        on_share(0.5)

        # where jobs are of many sizes, the next one may wait for more slots than one job left
        turnaround = spread_of([] if self._unlike_slots else self._turnarounds())
        on_share(0.7)
        time_between = 0.0
        if turnaround.count >= MIN_TURNAROUNDS:
            time_between = turnaround.p50 or 0.0
        own_load = load + rate * time_between * float(np.mean(self._width))
        utilization = None
        served_per_hour = None
        if mean_slots:
            utilization = (own_load + other_load) / mean_slots
        if mean_slots * own_load:
            served_per_hour = max(0.0, mean_slots - other_load) * rate / own_load * 3600

        busy_time = float(run_times.sum())
        wasted_time = _sum(attempts.ran[was_retried & self._has_run])
        known_waits = attempts.waited[~np.isnan(attempts.waited)]
        since_submission = (attempts.started_at - attempts.submitted_at)[~np.isnan(attempts.waited)]
        new_runner_waits = self._waits_for_new_runners()
        grows = self._grows(steps, new_runner_waits)
        if not grows and (came_back := self._waits_for_runners_that_came_back(steps)) is not None:
            grows = True
            new_runner_waits = np.concatenate([new_runner_waits, came_back])
        limit: float = self._most_busy
        slots_in_use = None
        if self._told is not None:
            limit = self._told
        elif self._counts_slots:
            limit = float(steps.slots.max(initial=0.0))
            slots_in_use = limit or None
        servers = None
        if other_load and self._runners and not attempts.hosted.any():
            # runners are counted once, however many platforms' jobs they run
            runners = tuple(runner.runner for runner in self._runners)
            if runners not in self._servers_of_runners:
                of_all = self._on_runners.taken(~np.isnan(self._on_runners.ran))
                self._servers_of_runners[runners] = self._servers_needed(
                    of_all, of_all.ran + time_between, objective
                )
            servers = self._servers_of_runners[runners]
        elif isinstance(self._width, float):
            servers = self._servers_needed(attempts, held_time + time_between, objective)
        elif not other_load and np.all(attempts.slots == attempts.slots[0]):
            servers = self._servers_needed(attempts, held_time + time_between, objective)
            if servers is not None:
                # a tenth of a slot is no exact number
                servers = math.ceil(round(servers * float(attempts.slots[0]), 6))
        return PlatformFigures(
            platform=self.name,
            hosted=bool(attempts.hosted.any()),
            attempts=len(self.rows),
            arrivals_per_hour=rate * 3600,
            run_time=spread_of(run_times),
            runners=len(self._runners),
            ephemeral=self._is_ephemeral,
            slots_seen=float(steps.slots.max(initial=0.0)),
            mean_slots=mean_slots,
            slots_told=self._told,
            slots_in_use=slots_in_use,
            grows=grows,
            new_runner_wait=spread_of(new_runner_waits),
            shortest_wait=quantile(known_waits, 0.01) if len(known_waits) else None,
            wait_since_submission_p95=quantile(since_submission, 0.95)
            if len(known_waits)
            else None,
            shared_with=self._shared_with(),
            runner_slots=int(np.median(self._slots_of_runners)) if self._runners else 1,
            busy_at_once=self._most_busy,
            offered_load=load,
            other_load=other_load,
            utilization=utilization,
            served_per_hour=served_per_hour,
            busy_share=steps.utilization,
            busy_share_while_waiting=steps.utilization_while_waiting,
            idle_while_waiting=steps.idle_while_waiting,
            full_while_waiting=steps.full_while_waiting(limit),
            waits=spread_of(waits.ended),
            wait_p50=waits.quantile(0.5),
            wait_p95=waits.quantile(0.95),
            censored=len(waits.broken_off),
            censored_wait=spread_of(waits.broken_off),
            still_waiting=self._still_waiting(),
            unknown_waits=waits.unknown,
            turnaround=turnaround,
            retries=int((attempts.number > 1).sum()),
            wasted_share=wasted_time / busy_time if busy_time else 0.0,
            peak_hour=peak_hour,
            peak_wait_p95=peak_wait,
            stall_time=_stall_time(self._with_waits_that_ended(steps)),
            wait_parts=self._parts(steps, limit, grows=grows),
            arrivals_are_measured=self._are_measured,
            unlike_slots=self._unlike_slots,
            servers_needed=servers,
        )

    def _still_waiting(self) -> int:
        """Return how many jobs neither started nor were cancelled."""
        attempts = self.attempts
        is_open = np.isnan(attempts.started_at) & np.isnan(attempts.finished_at)
        return int((is_open & ~np.isnan(attempts.eligible_at)).sum())

    def steps(self) -> Steps:
        """Return the counts over time.

        A runner of one job is there while it runs it: how many there could be is not known, but
        from the first on at least as many as there ever were.
        """
        is_eligible = ~np.isnan(self.attempts.eligible_at)
        started_at = self.attempts.started_at
        wait_ends = np.where(np.isnan(started_at), self._ends_of(self.attempts), started_at)
        waiting = Spans(self.attempts.eligible_at[is_eligible], wait_ends[is_eligible])
        there = Spans(
            np.array([runner.joined_at for runner in self._runners], np.float64),
            np.array([runner.gone_at for runner in self._runners], np.float64),
            self._slots_of_runners,
        )
        steps = steps_of(waiting, self._held, there, self.begins, self.ends)
        if self.holes:
            missing = np.diff(time_in(self.holes, np.append(steps.at, self.ends)))
            steps = msgspec.structs.replace(steps, lasts=steps.lasts - missing)
        if self._told is not None:
            told_slots = np.full(len(steps.at), self._told)
            return msgspec.structs.replace(steps, slots=told_slots)
        most: float = self._most_busy
        if self._counts_slots:
            most = float(steps.busy.max(initial=0.0))
        if self._is_ephemeral or (self._counts_slots and not self._runners):
            most_slots = np.where(steps.has_begun, most, 0.0)
            at_most = msgspec.structs.replace(steps, slots=most_slots)
            if self._is_ephemeral or (at_most.full_while_waiting(most) or 0.0) >= MIN_SHARE_AT_MOST:
                return at_most
        return steps

    def _with_waits_that_ended(self, steps: Steps) -> Steps:
        """Return the counts with the waiting jobs that were started at last.

        Those that were cancelled may have waited for something else than a slot.
        """
        attempts = self.attempts
        has_ended = ~np.isnan(attempts.waited)
        instants = np.append(steps.at, self.ends)
        waiting = counts_at(
            instants,
            np.clip(attempts.eligible_at[has_ended], self.begins, self.ends),
            np.clip(attempts.started_at[has_ended], self.begins, self.ends),
        )
        return msgspec.structs.replace(steps, waiting=waiting[:-1])

    def _servers_needed(
        self, attempts: AttemptColumns, held: Floats, objective: float
    ) -> int | None:
        """Return the slots with which these jobs' p95 wait is within the objective, seconds."""
        is_eligible = ~np.isnan(attempts.eligible_at)
        order = np.argsort(attempts.eligible_at[is_eligible], kind="stable")
        return servers_needed(
            attempts.eligible_at[is_eligible][order], held[is_eligible][order], objective
        )

    def _shared_with(self) -> tuple[str, ...]:
        """Return the other platforms whose jobs its runners ran."""
        if not self._runners:
            return ()
        platform = self._on_runners.platform
        names = [platform.values[code] for code in np.unique(platform.codes).tolist()]
        return tuple(name for name in names if name != self.name)

    def _first_rows(self) -> NDArray[np.int64]:
        """Return the row of each runner's first job, among those of all its runners."""
        if not self._runners:
            return np.empty(0, np.int64)
        owners = np.repeat(np.arange(len(self._runners)), np.diff(self._edges))
        by_start = np.lexsort((self._on_runners.started_at, owners))
        rows: NDArray[np.int64] = by_start[self._edges[:-1]]
        return rows

    def _waits_for_new_runners(self) -> Floats:
        """Return the waits that ended with the first job of a runner, seconds."""
        waits = self._on_runners.waited[self._first_rows()]
        return waits[waits > self._resolution]

    def _grows(self, steps: Steps, waits: Floats) -> bool:
        """Return whether runners came for jobs that waited, and left: no number of them is fixed.

        Runners that are there, and are given jobs one by one, look alike but for their waits: these
        are the longer, the more jobs waited already.
        """
        has_own_number = self._told is not None or self.attempts.hosted.any()
        if has_own_number or len(self._runners) < MIN_NEW_RUNNERS:
            return False
        joined_at = np.array([runner.joined_at for runner in self._runners])
        gone_at = np.array([runner.gone_at for runner in self._runners])
        most = most_at_once(joined_at, gone_at, self._resolution)
        lives = float(np.median(gone_at - joined_at))
        is_short = lives <= MAX_SHARE_OF_LIFE * (self.ends - self.begins)
        if most > MAX_SHARE_AT_ONCE * len(self._runners) or not is_short:
            return False
        if 2 * len(waits) < len(self._runners):
            return False
        waits_now = steps.waiting > 0
        periods = int((waits_now[1:] & ~waits_now[:-1]).sum()) + int(waits_now[0])
        if periods < MIN_PERIODS_OF_WAITING:
            return False
        rows = self._first_rows()
        eligible_at = self._on_runners.eligible_at[rows]
        is_known = ~np.isnan(eligible_at)
        place = np.searchsorted(steps.at, eligible_at[is_known], side="left") - 1
        waiting = steps.waiting[np.clip(place, 0, None)]
        first_waits = self._on_runners.waited[rows][is_known]
        return not self._follow(waiting, first_waits)

    def _follow(self, waiting: Floats, waits: Floats) -> bool:
        """Return whether jobs waited the longer, the more others were waiting when they came."""
        if np.ptp(waiting) == 0 or np.ptp(waits) <= self._resolution:
            return False
        return float(np.corrcoef(waiting, waits)[0, 1]) >= MAX_CORRELATION

    def _waits_for_runners_that_came_back(self, steps: Steps) -> Floats | None:
        """Return the waits that ended on a runner that did nothing all the while, seconds.

        It was not there: a name is used again by runners that come for jobs. None: they explain
        little of the waiting; or others went first, as where something else held these jobs; or all
        runners stood still, as in a stall; or jobs are started one by one.
        """
        has_own_number = self._told is not None or self.attempts.hosted.any()
        if has_own_number or not self._runners or max(self._slots_of_runners) > 1:
            return None
        ran = self._on_runners
        owners = np.repeat(np.arange(len(self._runners)), np.diff(self._edges))
        order = np.lexsort((ran.started_at, owners))
        eligible_at, started_at = ran.eligible_at[order], ran.started_at[order]
        ended_before = np.append(np.nan, self._ends_of(ran)[order][:-1])
        ended_before[self._edges[:-1]] = np.nan
        waits = started_at - eligible_at
        was_idle = (ended_before <= eligible_at) & (waits >= MIN_BOOT)
        starts = np.sort(started_at)
        first = np.searchsorted(starts, eligible_at, side="right")
        was_idle &= np.searchsorted(starts, started_at - 1.0, side="left") > first
        share = float(waits[was_idle].sum() / max(1.0, np.nansum(waits)))
        if was_idle.sum() < MIN_NEW_RUNNERS or share < MIN_SHARE_OF_BOOTS:
            return None
        if is_overtaken(eligible_at, started_at)[was_idle].mean() > MAX_SHARE_OVERTAKEN:
            return None
        place = np.searchsorted(steps.at, eligible_at[was_idle], side="left") - 1
        waiting = steps.waiting[np.clip(place, 0, None)]
        return None if self._follow(waiting, waits[was_idle]) else waits[was_idle]

    def _parts(self, steps: Steps, limit: float, *, grows: bool) -> WaitParts:
        """Return what its jobs waited for; nothing, if it is not known how many slots there are."""
        if not steps.slots.any():
            return WaitParts()
        attempts = self.attempts.taken(~np.isnan(self.attempts.waited))
        return wait_parts(
            attempts.eligible_at,
            attempts.started_at,
            steps,
            limit,
            comes_for_jobs=grows or self._is_ephemeral,
        )

    def _loaded_time(self) -> float:
        """Return the time over which rates are taken, seconds: that in which jobs arrived.

        A queue that is worked off later was more load than there were servers, at the time. Jobs
        that all came at once have no rate: then it is the whole time.
        """
        last_arrival = float(self.attempts.arrived_at.max())
        before = time_in(self.holes, np.array([self.begins, last_arrival, self.ends]))
        whole_time = self.ends - self.begins - float(before[2] - before[0])
        arrival_time = last_arrival - self.begins - float(before[1] - before[0])
        if arrival_time >= MIN_SHARE_OF_ARRIVALS * whole_time:
            return arrival_time
        return whole_time

    def _loaded_until(self) -> float:
        """Return the end of that time."""
        last_arrival = float(self.attempts.arrived_at.max())
        if last_arrival - self.begins >= MIN_SHARE_OF_ARRIVALS * (self.ends - self.begins):
            return last_arrival
        return self.ends

    def _time_for_others(self) -> float:
        """Return how long its runners ran jobs of other platforms, seconds."""
        run_times = self._on_runners.ran
        if self._counts_slots:
            run_times = run_times * self._on_runners.slots
        is_other = self._on_runners.platform.codes != self.attempts.platform.codes[0]
        return _sum(run_times[is_other & ~np.isnan(run_times)])

    def _turnarounds(self) -> list[float]:
        """Return how long slots stood empty between two jobs, of which the second waited."""
        if self._is_ephemeral:  # a slot's next start is on another runner
            ran = self._spans_of(self.attempts.taken(self._has_run))
            return successions(ran, self._most_busy, self._resolution)
        spans = self._spans_of(self._on_runners)
        times = []
        for runner, (first, end) in zip(self._runners, pairwise(self._edges), strict=True):
            times += times_between(spans.taken(slice(first, end)), runner.slots, self._resolution)
        return times

    def _spans_of(self, attempts: AttemptColumns) -> JobSpans:
        eligible_at = attempts.eligible_at
        return JobSpans(
            np.where(np.isnan(eligible_at), np.inf, eligible_at),
            attempts.started_at,
            self._ends_of(attempts),
        )

    def _ends_of(self, attempts: AttemptColumns) -> Floats:
        """Return when each ended; what did not lasts until the end of the records."""
        return np.where(np.isnan(attempts.finished_at), self.ends, attempts.finished_at)

    def _work(self) -> Floats:
        """Return the run time of every attempt; if it never ran, the mean of those of its name."""
        run_times = self.attempts.ran
        if self._has_run.all():
            return run_times
        _, _, kinds = distinct(self.attempts.kind.codes)
        kinds_that_ran = kinds[self._has_run]
        count = int(kinds.max()) + 1
        jobs = np.bincount(kinds_that_ran, minlength=count)
        time = np.bincount(kinds_that_ran, run_times[self._has_run], minlength=count)
        mean_of_all = 0.0
        if self._has_run.any():
            mean_of_all = _sum(run_times[self._has_run]) / int(self._has_run.sum())
        means = np.full(count, mean_of_all)
        np.divide(time, jobs, out=means, where=jobs > 0)
        return np.where(self._has_run, run_times, means[kinds])


def _stall_time(steps: Steps) -> float:
    """Return the longest time in which jobs waited and none ran, after the first that ran.

    Records of a window have jobs that came before it, and not those that ran then.
    """
    is_stalled = (steps.waiting >= MIN_STALLED_JOBS) & (steps.busy == 0) & steps.has_begun
    places = np.flatnonzero(is_stalled)
    longest = lasted = 0.0
    place_before = -1
    for place, lasts in zip(places.tolist(), steps.lasts[places].tolist(), strict=True):
        is_same_stall = place == place_before + 1
        lasted = lasted + lasts if is_same_stall else lasts
        longest = max(longest, lasted)
        place_before = place
    return longest if longest >= MIN_STALL_TIME else 0.0


def _sum(values: Floats) -> float:
    """Return the sum, added up one by one: by halves, as NumPy does, the last digit differs."""
    return float(sum(values.tolist()))
