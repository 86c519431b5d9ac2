"""The pools of a farm, as its records show them: who served whom, slots, and times between jobs.

Runners that ran jobs of the same labels are one pool. What a runner did before its first job and
after its last is not in any record: it counts as there between the two.

Hosted runners (and ephemeral ones of which no limit shows) are servers without a queue: a job
starts after a delay that does not depend on how many others run. A plan's limit shows where jobs
that met as many as ever ran at once waited longer than the others.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np

from farm.columns import Floats
from farm.records.attempt import Attempt, grouped
from farm.records.bundle import Bundle, Clock
from farm.records.runners import JobSpans, Runner, most_at_once, successions, times_between
from farm_twin.diagnosis.occupancy import counts_at
from farm_twin.twins.runner_lives import (
    CLOCKS,
    IdleTimes,
    Rhythm,
    comings,
    end_of,
    idle_times_of,
    provisioning_delays_of,
    rhythm_of,
)
from farm_twin.twins.timetable import changes_of_number
from farm_twin.twins.tries import Tries, tries_of

OUTLIER = 5.0
"""Times as long as the median from which a time between two jobs had another reason."""
ENOUGH = 10
"""Observations from which a time is taken."""
GREW = 600.0
"""Seconds for which runners came while jobs waited, from which they were not there before."""
REPLACED = 1.5
"""New runners for each attempt that was lost, at most: some had none when they were lost."""
TELLING_WAIT, TELLING, SPANS = 60.0, 200, tuple(3600.0 * one for one in (12, 24, 48))
"""Where candidates plan rarely enough to remember, each plan of theirs takes up to a tenth of a
millisecond: then only jobs of the shortest of these times are played (s) in which this number
waited for longer than that (s)."""

NUMBERED_BY_RUN = ("github",)
"""Sources that number the attempts of a whole run: a job may have had no earlier one."""
FULL, SHORT_BOOT = 0.02, 15.0
"""Share of the waiting below which a pool never was full, and seconds within which no runner boots:
where jobs wait no longer, nothing shows that any was started for one."""
WARM = 0.5
"""Share of the time until the next runner of one job has a job, up to which the shortest waits are
those of jobs that found a runner ready."""
LONGER, RESOLUTION = 2.0, 1.0
"""Times as long as the others' from which the waits at a limit differ, and seconds that count."""
MAX_ATTEMPTS = 100
"""Earlier attempts of a job that are looked for."""
VALUES = 40
"""Delays that stand for all: each is the mean of as many, so that their mean is the recorded."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the records show of a pool; spans in seconds."""

    #: the labels that its jobs ask for, the most frequent first
    platforms: tuple[str, ...]
    hosted: bool
    #: a runner runs one job
    ephemeral: bool
    #: runners at once, at most, and all that ever ran a job
    runners: int
    ever: int
    slots: int
    #: from a free slot to a start
    pickup_time: float
    #: of runners of one job: from a ready one to a start, where jobs found one
    warm_pickup: float = 0.0
    #: from an end to the next start on that slot, of a job that waited already
    turnaround: float
    turnarounds: int
    #: how old runners were, from their request, at their first start; where the source says
    ages: tuple[float, ...]
    #: how long after a first job had to wait the next runner came, ordered
    provisioning_delays: tuple[float, ...]
    #: all slots of all its runners were busy while jobs waited, share of the waiting
    saturated: float
    #: of runners of one job: the records show that there are no more
    limited: bool = True
    #: of hosted runners, and of those without a limit: delays of a start, each equally likely
    delays: tuple[float, ...] = ()
    #: attempts that failed, were lost with their runner, or were tried again
    tries: Tries
    #: attempts of which the records only say that there were some
    missing: int = 0
    #: losses per builder and hour that explain the missing ones
    loss_rate: float = 0.0
    #: runners at once, at least, in the middle four fifths of the time
    stayed: int = 0
    #: options of a provisioner that changes the number by hand or by the hour; None: not seen
    changes: Mapping[str, object] | None = None
    #: of the hours by which it changes
    clock: Clock = Clock()
    #: how long runners were there without work
    idle_times: IdleTimes = IdleTimes()
    #: of the instants at which runners came; None: none shows
    rhythm: Rhythm | None = None
    #: from the first runner that came while jobs waited to the last one
    grew: float = 0.0
    #: the wait that one job in a hundred exceeds
    long_wait: float = math.inf

    @property
    def is_fixed(self) -> bool:
        """Whether the same runners were there all the time, as far as the records show."""
        if self.ephemeral or self.ever != self.runners:
            return False
        return self.grew < GREW or self.never_waits_for_runners

    @property
    def never_waits_for_runners(self) -> bool:
        """Whether there always was a free slot, and hardly a job waited as long as a boot takes."""
        return self.saturated < FULL and self.long_wait < SHORT_BOOT

    @property
    def is_replaced(self) -> bool:
        """Whether lost runners explain those that came later."""
        is_missed = self.missing > 0 or self.grew < GREW
        # some systems have no word for a loss
        most = REPLACED * (self.tries.lost + self.tries.failed_again + self.missing)
        return is_missed and 0 < self.ever - self.runners <= most


class PoolLoad(msgspec.Struct, frozen=True):
    """The jobs of a pool that ran, by when they could start; instants from the first arrival."""

    attempts: list[Attempt]
    begins: float
    arrived: Floats
    waited: Floats
    ran: Floats


def pools_of(bundle: Bundle) -> list[tuple[Shape, PoolLoad]]:
    """Return the pools that ran jobs, the busiest first, with their jobs."""
    known = {one.runner: one for one in bundle.runners()}
    recorded = _recorded(bundle)
    ran = [one for one in bundle.attempts if one.ran is not None and one.eligible_at is not None]
    hosted = [one for one in ran if one.hosted]
    # a limit of the vendor's plan is common to all labels
    shared = bool(hosted) and _meets_limit(hosted)
    group_of = _joined([one for one in ran if not one.hosted])

    def pool_of(one: Attempt) -> tuple[bool, str]:
        hosts = "" if shared else one.platform
        return one.hosted, hosts if one.hosted else group_of[one.platform]

    pools, clock = grouped(ran, pool_of).values(), bundle.clock
    found = [(shape_of(some, known, clock, recorded), load_of(some)) for some in pools]
    found.sort(key=lambda one: (-float(one[1].ran.sum()), one[0].platforms))
    return found


def _joined(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Return, by platform, the first platform with which it shares runners."""
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            name = above[name]
        return name

    by_runner: dict[str, str] = {}
    for one in attempts:
        first = root(one.platform)
        if one.runner:
            other = root(by_runner.setdefault(one.runner, one.platform))
            above[max(first, other)] = min(first, other)
    return {name: root(name) for name in above}


def load_of(attempts: Sequence[Attempt]) -> PoolLoad:
    """Return jobs in order of arrival (ties: of their starts, then as in the records).

    Sources that round to seconds have many arrivals in one, and only the starts tell their order.
    """
    some = sorted(attempts, key=lambda one: (one.eligible_at or 0.0, one.started_at or 0.0))
    times = np.array([(one.eligible_at, one.started_at, one.finished_at) for one in some])
    arrived, started, finished = times.astype(np.float64).T
    return PoolLoad(
        some, float(arrived[0]), arrived - arrived[0], started - arrived, finished - started
    )


class ProfileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much the records must show before a profile relies on it."""

    #: gaps between jobs from which a mean is taken
    min_gaps: int = 10
    #: share of an ephemeral pool's runners that may appear to run a second job: vendors reuse names
    max_reused_share: float = 0.05


LIMITS = ProfileLimits()


class PoolRunners(NamedTuple):
    """The runners that ran a pool's jobs."""

    #: attempts of each runner, by start; empty for hosted runners, whose names are reused
    attempts_by_name: dict[str, list[Attempt]]
    #: first start and last end of each runner
    lifetimes: list[tuple[float, float]]
    #: jobs that a runner runs at once
    slots: int
    hosted: bool
    #: a runner runs one job
    ephemeral: bool


class RecordedNumbers(NamedTuple):
    """Which attempts of jobs the records have, also in other pools, and such that never ran."""

    known: set[tuple[str, int]]
    #: earlier attempts are recorded, too, so one that is not there never ran
    are_all: bool


def _recorded(bundle: Bundle) -> RecordedNumbers:
    known = {(attempt.job or attempt.id, attempt.attempt) for attempt in bundle.attempts}
    are_all = bundle.manifest.source in NUMBERED_BY_RUN
    are_all = are_all or any((job, number - 1) in known for job, number in known)
    return RecordedNumbers(known, are_all)


def shape_of(
    attempts: Sequence[Attempt],
    runners: Mapping[str, Runner],
    clock: Clock,
    recorded: RecordedNumbers,
) -> Shape:
    """Return the profile of a pool, as the attempts that it ran show it.

    The order of the steps matters. The number of slots is needed to measure the gaps between jobs,
    the gaps to know which waits are normal, and these to find the jobs that a runner was started
    for.
    """
    load = load_of(attempts)
    spans = _spans(attempts)
    columns: Floats = np.array(spans)

    pool = _runners_of(attempts, runners)
    limited = not pool.ephemeral or _meets_limit(attempts)
    at_once, gaps = _overlaps_and_gaps(pool, spans, clock.resolution)

    mean_gap = _usual(gaps) if len(gaps) >= LIMITS.min_gaps else None
    pickup_time = _pickup(attempts, pool.slots, pool.lifetimes, mean_gap)
    turnaround = pickup_time if mean_gap is None else max(mean_gap, pickup_time)
    normal_wait = pickup_time if pool.ephemeral else turnaround

    warm_pickup = 0.0
    if pool.ephemeral and gaps and pickup_time < WARM * turnaround:
        warm_pickup = pickup_time
    pickup_after_boot = warm_pickup if pool.ephemeral else pickup_time
    first_half_ends = load.begins + float(load.arrived[-1]) / 2
    came = comings(pool.attempts_by_name, load.begins, pickup_after_boot, first_half_ends)
    growth_time = float(np.ptp(came)) if len(came) else 0.0
    delays = provisioning_delays_of(load.arrived, load.waited, came, normal_wait)

    changes = None
    idle_times = IdleTimes()
    if not pool.ephemeral:
        changes = changes_of_number(columns + clock.ahead, pool.slots)
    if not pool.ephemeral and pool.attempts_by_name:
        late = load.arrived[load.waited > normal_wait + CLOCKS]
        idle_times = idle_times_of(pool.attempts_by_name, late, load.begins, normal_wait)

    start_delays: tuple[float, ...] = ()
    if pool.hosted or not limited:
        start_delays = _start_delays(attempts, limited=limited)

    labels = Counter(attempt.platform for attempt in attempts).most_common()
    ages = [ran[0].runner_age for ran in pool.attempts_by_name.values()]
    missing = _missing(attempts, recorded)
    return Shape(
        platforms=tuple(label for label, _ in labels),
        hosted=pool.hosted,
        ephemeral=pool.ephemeral,
        limited=limited,
        runners=at_once,
        ever=len(pool.attempts_by_name),
        stayed=_fewest(pool.lifetimes),
        slots=pool.slots,
        pickup_time=pickup_time,
        warm_pickup=warm_pickup,
        turnaround=turnaround,
        turnarounds=len(gaps),
        ages=tuple(age for age in ages if age is not None),
        provisioning_delays=tuple(delays.tolist()),
        rhythm=rhythm_of(came),
        grew=growth_time,
        long_wait=float(np.quantile(load.waited, 0.99)),
        idle_times=idle_times,
        changes=changes,
        clock=clock,
        saturated=_saturated(columns, at_once * pool.slots),
        delays=start_delays,
        tries=tries_of(attempts),
        missing=missing,
        loss_rate=_loss_rate(columns[2] - columns[1], missing),
    )


def limited_to(shape: Shape, load: PoolLoad, jobs: int) -> Shape:
    """Return the pool with as many slots as jobs of it ever run at once, however many it has.

    A fixed pool stays one. The next job runs on any of the runners: so its delay is that from the
    end that made room for it.
    """
    spans = _spans(load.attempts)
    gaps = successions(spans, jobs, shape.clock.resolution)
    turnaround = _usual(gaps) if len(gaps) >= LIMITS.min_gaps else shape.turnaround
    whole_time = [(float(spans.started_at.min()), float(spans.ended_at.max()))]
    pickup_time = _pickup(load.attempts, jobs, whole_time, turnaround)
    return msgspec.structs.replace(
        shape,
        runners=jobs,
        ever=jobs if shape.is_fixed else shape.ever,
        slots=1,
        pickup_time=pickup_time,
        turnaround=max(turnaround, pickup_time),
        turnarounds=len(gaps),
    )


def _runners_of(attempts: Sequence[Attempt], runners: Mapping[str, Runner]) -> PoolRunners:
    """Return who ran the attempts of a pool, which are all hosted or all not."""
    hosted = any(attempt.hosted for attempt in attempts)
    by_name: dict[str, list[Attempt]] = {}
    if not hosted:
        named = [attempt for attempt in attempts if attempt.runner]
        by_name = grouped(sorted(named, key=_start), attrgetter("runner"))
    reused = sum(len(ran) > 1 for ran in by_name.values())
    runs_one_job = bool(by_name) and reused <= LIMITS.max_reused_share * len(by_name)
    return PoolRunners(
        attempts_by_name=by_name,
        lifetimes=[(_start(ran[0]), max(map(end_of, ran))) for ran in by_name.values()],
        slots=_slots([runners[name] for name in by_name]),
        hosted=hosted,
        ephemeral=hosted or runs_one_job,
    )


def _overlaps_and_gaps(
    pool: PoolRunners, spans: JobSpans, resolution: float
) -> tuple[int, list[float]]:
    """Return how many runners there were at once, and the gaps between jobs on a slot (s).

    Only gaps before a job that already waited are measured: before any other the slot was idle.
    """
    if pool.lifetimes:
        joined, gone = np.array(pool.lifetimes).T
        at_once = most_at_once(joined, gone, resolution)
    else:  # without names, one runner for each job
        at_once = most_at_once(spans.started_at, spans.ended_at, resolution)
    if not pool.ephemeral:
        gaps: list[float] = []
        for ran in pool.attempts_by_name.values():
            gaps += times_between(_spans(ran), pool.slots, resolution)
        return at_once, gaps
    # the next job runs on another runner
    gaps = successions(spans, at_once * pool.slots, resolution)
    if pool.hosted or pool.slots > 1 or len(gaps) < LIMITS.min_gaps:
        return at_once, gaps
    return _with_booting(spans, at_once, gaps, resolution)


def _with_booting(
    jobs: JobSpans, running: int, between: list[float], resolution: float
) -> tuple[int, list[float]]:
    """Return the number of one-job runners, with those that boot, and the times between two.

    Of too few or too many the k-th end made room for another start: only those of the right number
    are alike. ``running``: at once, at most; ``between``: the times if these are all.
    """
    boot = float(np.median(between))
    most = most_at_once(jobs.started_at - boot, jobs.ended_at, resolution)
    others = ((n, successions(jobs, n, resolution)) for n in range(running + 1, most + 1))
    tried = [(running, between), *(one for one in others if len(one[1]) >= ENOUGH)]
    return min(tried, key=lambda one: float(np.ptp(np.quantile(one[1], (0.25, 0.75)))))


def _loss_rate(ran: Floats, missing: int) -> float:
    """Return the losses per builder and hour that explain the missing attempts.

    A job of s seconds is lost exp(r s) - 1 times on average until it ends, at a rate of r.
    """
    low, high = 0.0, 10.0 / max(1.0, float(ran.max()))
    if not missing:
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        if np.expm1(middle * ran).sum() < missing:
            low = middle
        else:
            high = middle
    return round(3600 * low, 4)


def _missing(attempts: Sequence[Attempt], recorded: RecordedNumbers) -> int:
    """Return how many earlier attempts of jobs ran, and are not in the records.

    Where a source lists earlier attempts, those that it does not list were skipped, or cancelled
    before they started.
    """
    if recorded.are_all:
        return 0
    own = {(attempt.job or attempt.id, attempt.attempt) for attempt in attempts}
    return sum(
        (job, number) not in recorded.known
        for job, attempt in own
        for number in range(1, min(attempt, MAX_ATTEMPTS))
    )


def _slots(runners: Sequence[Runner]) -> int:
    """Return how many jobs a runner runs at once: the most that two runners did, or the only."""
    most = sorted((one.slots for one in runners), reverse=True)
    return most[min(1, len(most) - 1)] if most else 1


def _usual(times: Sequence[float]) -> float:
    """Return the mean without outliers: a slot's work is lost by the mean, not by the median."""
    found = np.array(times)
    return float(found[found <= OUTLIER * np.median(found)].mean())


def _pickup(
    attempts: Sequence[Attempt],
    slots: int,
    lives: Sequence[tuple[float, float]],
    turnaround: float | None,
) -> float:
    """Return the median wait of jobs that found a free slot, or of the shortest twentieth."""
    waits = np.sort([one.waited or 0.0 for one in attempts])
    most = np.inf if turnaround is None else turnaround
    running = _count([_start(one) for one in attempts], [end_of(one) + most for one in attempts])
    there = _count([at for at, _ in lives], [until for _, until in lives])
    free = [
        one.waited or 0.0
        for one in attempts
        if running(one.eligible_at or 0.0) < slots * there(one.eligible_at or 0.0)
    ]
    if turnaround is None or len(free) < ENOUGH:
        free = waits[: max(3, len(waits) // 20)].tolist()
    return float(max(0.0, min(np.median(free), most)))


def _count(begins: Sequence[float], ends: Sequence[float]) -> Callable[[float], int]:
    """Return how many spans contain an instant, as a function."""
    first, last = sorted(begins), sorted(ends)
    return lambda at: bisect_right(first, at) - bisect_right(last, at)


def _fewest(lives: Sequence[tuple[float, float]]) -> int:
    """Return how many of these spans there were at once, at least, but for first and last times."""
    first = min((at for at, _ in lives), default=0.0)
    last = max((until for _, until in lives), default=0.0)
    margin = (last - first) / 10
    there = _count([at for at, _ in lives], [until for _, until in lives])
    within = [until for _, until in lives if first + margin <= until <= last - margin]
    return min(map(there, within), default=0)


def _saturated(spans: Floats, slots: int) -> float:
    """Return the share of all waiting that passed while every slot was busy."""
    eligible, started, ended = spans
    at = np.unique([eligible, started, ended])
    waited = counts_at(at, eligible, started)[:-1] * np.diff(at)
    full = counts_at(at, started, ended)[:-1] >= slots
    total = float(waited.sum())
    return float(waited[full].sum()) / total if total else 0.0


def _spans(attempts: Sequence[Attempt]) -> JobSpans:
    spans = [(attempt.eligible_at or 0.0, _start(attempt), end_of(attempt)) for attempt in attempts]
    return JobSpans(*np.array(spans, np.float64).T)


def _start(one: Attempt) -> float:
    return one.started_at or 0.0


def telling(load: PoolLoad, half: int, most: int) -> slice:
    """Return jobs of the first half, this number at most, that say enough of how it is sized.

    They begin where no job waits or runs, as early as may be.
    """
    arrived = load.arrived[:half]
    free_at = np.maximum.accumulate(arrived + load.waited[:half] + load.ran[:half])
    starts = np.flatnonzero(arrived >= np.concatenate([arrived[:1], free_at[:-1]]))
    long = np.concatenate([[0], np.cumsum(load.waited[:half] > TELLING_WAIT)])
    for span in SPANS:
        ends = np.searchsorted(arrived, arrived[starts] + span, side="right")
        ends = np.minimum(ends, starts + most)
        found = long[ends] - long[starts]
        if found.max() >= TELLING:
            break
    best = int(np.argmax(found >= min(TELLING, found.max())))
    return slice(int(starts[best]), int(ends[best]))


def _meets_limit(attempts: Sequence[Attempt]) -> bool:
    """Return whether jobs waited longer when as many as ever ran at once were there already."""
    waits, at_limit = _limit_waits(attempts)
    if min(at_limit.sum(), (~at_limit).sum()) < ENOUGH:
        return False
    usual = max(RESOLUTION, float(np.median(waits[~at_limit])))
    return float(np.median(waits[at_limit])) > LONGER * usual


def _start_delays(attempts: Sequence[Attempt], *, limited: bool) -> tuple[float, ...]:
    """Return delays that stand for those recorded, each equally likely, ascending (s).

    They are of the first half: the other is to check them. With a limit those count that met none.
    """
    waits, at_limit = _limit_waits(attempts)
    first = np.arange(len(waits)) < len(waits) / 2
    some = waits[first & ~at_limit] if limited else waits[first]
    if not len(some):
        some = waits
    parts = np.array_split(np.sort(some), min(VALUES, len(some)))
    return tuple(round(float(part.mean()), 1) for part in parts)


def _limit_waits(attempts: Sequence[Attempt]) -> tuple[Floats, np.ndarray]:
    """Return the waits by arrival, and which jobs met as many as ever ran at once."""
    spans = _spans(attempts)
    eligible, started, finished = spans.taken(np.lexsort(spans[::-1]))
    most = most_at_once(started, finished, RESOLUTION)
    # those that arrived before and have not ended
    met = np.arange(len(eligible)) - np.searchsorted(np.sort(finished), eligible, side="right")
    return started - eligible, met >= most
