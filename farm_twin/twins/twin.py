"""Makes a twin: the farm in a bundle as a scenario, and how well it waits as that farm did."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.errors import InputError, TraceError
from farm.core.fields import json_name
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, write_bundle
from farm.records.foreign_columns import CALENDAR
from farm.records.reading import part
from farm.records.traces.bundle import retries_first
from farm.results.formatting import readable_percent, readable_span
from farm.sim.engines import is_compiled
from farm.units import many
from farm.whole_files import write_document
from farm_twin.diagnosis.evidence import Assumption
from farm_twin.diagnosis.releases import Releases
from farm_twin.twins.baseline import (
    Check,
    HourCheck,
    by_hour,
    check,
    check_of_draws,
    median_place,
)
from farm_twin.twins.candidates import Candidate, candidates_of, delayed
from farm_twin.twins.closed_loop.closing import (
    CUT_SHORT,
    ClosedLoop,
    closed_loop_of,
    coarse_evidence,
    cut_short,
    cut_short_evidence,
    other_releases,
)
from farm_twin.twins.closed_loop.foreseen_change import (
    ForeseenChange,
    change_of,
    foreseen_change,
)
from farm_twin.twins.closed_loop.run_needs import CLOCKS
from farm_twin.twins.flags import (
    OVERTAKEN,
    Flag,
    flags_of,
    hidden_order,
    labels_of_a_part,
    overtaking,
)
from farm_twin.twins.grades import (
    BELIEVABLE,
    ENOUGH,
    ON_AVERAGE,
    REPETITIONS,
    Grade,
    verdict_of,
)
from farm_twin.twins.orders import Order, as_recorded, order_seen, weights_alike
from farm_twin.twins.pool_shapes import PoolLoad, Shape, limited_to, pools_of, telling
from farm_twin.twins.scenario_text import (
    ONE_POOL,
    UNJUDGED,
    evidence_of,
    pool_document,
    pool_names,
    scenario_text,
    times_of,
    unjudged,
)
from farm_twin.twins.search import ANEW, EXACT, MOST_SEARCHED, Fit, Search, explains_no_more
from farm_twin.twins.timetable import start_of
from farm_twin.twins.triangle import Triangle, triangle
from farm_twin.twins.tries import retries_go_first
from farm_twin.twins.twin_players import Player, Written, retries_of

Tell = Callable[[str, float], None]
Certainty = Literal["sure", "likely", "cannot-tell"]
"""How sure an answer of a twin can be, at best."""
SMALL = 5.0
"""Seconds by which jobs may err more by arrival than in the order of the recorded starts."""
EXPLAINED = {"cap", "gate", "idle runners", "subset"}
"""Flags that explain why jobs overtake each other."""
HOPELESS = {"several slots", "cap", "gate"}
"""Flags of what no pool of slots waits for, however it is sized."""
REPEATED = 0.7
"""Share of a pool's check that its repetitions take, about; the rest plays jobs like the recorded
ones."""
MOST_CALIBRATED = 10_000
"""Jobs of the first half that are played to find a candidate."""
MOST_TIME, SEARCH_SHARE = 55.0, 0.6
"""Seconds of a processor that a twin takes, about, and the share of them for the search: the rest
is to hold what was found against the records."""
LEAST_REPETITIONS = 4
"""Repetitions of a twin that are made although there is no time left."""
MOST_TIME_FIRST, STEP = 8.0, 7
"""The same for a pool of a first scenario; and every how many candidates one is tried at once."""
COMMON = ("fixed", "manual", "taskcluster", "target-wait", "keda", "buildkite")
WITHOUT_KERNEL = ", without the compiled kernel, which is faster (in a clone: make kernel)"


class PoolTwin(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """A pool of the twin, and what was found of it."""

    name: str
    platforms: tuple[str, ...]
    algorithm: str
    document: dict[str, Any]
    scheduling: dict[str, Any]
    shape: Shape
    evidence: list[str]
    flags: list[Flag]
    #: on the second half of the records; None: there are too few jobs
    check: Check | None
    hours: list[HourCheck]
    #: recorded, replayed and drawn jobs, on all records
    triangle: Triangle | None
    #: candidates that were played
    played: int
    #: how well it waits as recorded
    grade: Grade
    #: each job or on average
    believable: bool
    #: believable job by job, too, and not only on average
    job_by_job: bool
    #: in one sentence, why or why not
    verdict: str
    #: the grade as the scenario keeps it, with the error or the reason
    mark: str


class Twin(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """A farm's twin.

    >>> records = farm.simulate("quickstart").save("recorded") / "jobs.csv"
    >>> [pool.name for pool in farm.twin(records, "twin.yaml").pools]
    ['amd64-virtual', 'win10-64-virtual']
    """

    pools: list[PoolTwin]
    text: str
    #: what its reader must know
    remarks: list[str]
    #: how sure an answer of it can be, at best
    grade: Certainty
    #: what was read and left out
    evidence: list[str]
    assumed: list[Assumption]
    #: jobs that came when others had ended, if they are many
    open_loop: Releases | None = None
    #: share of the jobs that are played as others release or cancel them; None: as they came
    closed_loop: float | None = None

    @property
    def believable(self) -> bool:
        """Whether every pool waits as the farm did."""
        return all(one.believable for one in self.pools)

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        if self.open_loop is None:
            return self._waits
        return (
            f"{self._waits}; but what it says of another farm is not sure: {self.open_loop.text}, "
            "and are played as they came (open loop)"
        )

    @property
    def _waits(self) -> str:
        doubtful = [
            f"{pool.name} ({pool.mark if pool.grade == 'rough' else pool.grade})"
            for pool in self.pools
            if not pool.believable
        ]
        if len(doubtful) == len(self.pools):
            return "no simulated farm that waits as yours did was found"
        if doubtful:
            return (
                f"this farm waits as yours did but for {', '.join(doubtful)}: do not believe these"
            )
        recorded, simulated, apart = _mean_waits(self.pools)
        error = readable_percent(simulated / recorded - 1, signed=True) if recorded else "none"
        by_job = f", {readable_percent(apart / recorded)} per job" if recorded else ""
        as_yours = "" if all(one.job_by_job for one in self.pools) else f" {ON_AVERAGE}"
        return (
            f"this farm waits as yours did{as_yours}: mean {readable_span(simulated)} where "
            f"{readable_span(recorded)} was recorded (error {error}{by_job})"
        )


def twin_of(
    bundle: Bundle,
    path: str,
    tell: Tell = lambda *_: None,
    is_stopped: Callable[[], bool] = lambda: False,
    closed: ClosedLoop | None = None,
) -> Twin:
    """Return the twin of a farm, from the records in a bundle.

    Each pool is searched on the first half of its records and checked on the second. The search
    plays one pool at a time. The check plays the scenario file itself, written and read back, so
    it covers the rounding of numbers and all pools together.

    Args:
        bundle: the records.
        path: where the bundle lies, relative to the scenario's folder.
        tell: called with the current step, and the share of the work that is done (0 to 1).
        is_stopped: whether the search is to end with what is known so far.
        closed: the same records with what released their jobs, which then lie at ``path``. Pools
            are searched with jobs that come as they came, as the farm was the same; None: they are
            checked so, too.

    Raises TraceError for records without jobs that ran.
    """
    clock = _Time(is_stopped)
    trace_format = "bundle"
    if retries_go_first(bundle.attempts):
        trace_format = "bundle-retries-first"
        bundle = msgspec.structs.replace(bundle, attempts=retries_first(bundle.attempts))
    played = bundle.attempts
    if closed is not None:
        played = closed.bundle.attempts
        if trace_format != "bundle":
            played = retries_first(played)
    ran = [attempt for attempt in played if attempt.ran is not None]

    pools = pools_of(bundle)
    if not pools:
        raise TraceError(
            "found no job with a start, an end and a time from which it waited; allowed: some"
        )
    has_waits = any(load.waited.max() > bundle.manifest.resolution_time for _, load in pools)
    shapes = [shape for shape, _ in pools]
    order = order_of(pools)
    fits = _search_pools(pools, order, tell, clock)

    documents = _pool_documents(fits, ran)
    sections: list[tuple[dict[str, object], Sequence[str]]] = [
        (document, fit.evidence) for document, fit in zip(documents, fits, strict=True)
    ]
    leftover = unjudged(ran, shapes)
    if leftover is not None:
        document, reason = leftover
        sections.append((document, [reason]))
    render = partial(
        scenario_text,
        path,
        scheduling={"policy": "fifo", **order, **retries_of(shapes)},
        starts=_start_of_scenario(fits, ran),
        trace_format=trace_format,
    )

    draft = Written(render(pools=sections, remarks=(), errors=None), ran)
    pool_twins = _check_pools(fits, documents, order, draft, tell, clock, has_waits=has_waits)
    changes: list[ForeseenChange] = []
    if closed is not None:
        for number, (fit, document) in enumerate(zip(fits, documents, strict=True)):
            change = change_of(fit.shape, fit.load)
            if change is None or not clock.left:
                continue
            changed = {key: value for key, value in document.items() if key != "provisioner"}
            with_change = list(sections)
            with_change[number] = {**changed, "builders": change.after}, ()
            changed_at = fit.load.begins + change.at
            before = [attempt for attempt in ran if attempt.arrived_at < changed_at]
            text = render(pools=with_change, remarks=(), errors=None)
            waits = Written(text, before).waits(fit.load)
            resolution = max(CLOCKS, closed.resolution)
            foreseen = foreseen_change(fit.name, change, fit.load, waits, resolution)
            if foreseen is not None:
                changes.append(foreseen)
    open_loop = other_releases(played)
    grade = certainty_of(pool_twins, played, open_loop, closed, changes)
    equivalent_weights = _equivalent_weights(pools, order)
    header = [
        f"A twin of the farm whose records are in {path}.",
        *(f"{pool.name}: {pool.verdict}" for pool in pool_twins),
        *equivalent_weights,
    ]
    marks: dict[str, object] = {"grade": grade, **_errors(pool_twins)}
    loop = [] if closed is None else list(closed.evidence)
    loop += [*coarse_evidence(bundle), *cut_short_evidence(played)]
    loop += [change.text for change in changes]
    header[1:1] = loop
    if closed is not None:
        marks["closed_loop"] = round(closed.share, 2)
    if open_loop is not None:
        marks["open_loop"] = round(open_loop.share, 2)
        header.insert(1, f"Open loop: {open_loop.text}, {OPEN_LOOP}.")
    marks["pools"] = {pool.name: pool.mark for pool in pool_twins}
    for number, pool in enumerate(pool_twins):
        if not pool.believable:
            document, evidence = sections[number]
            sections[number] = document, [f"do not rely on it: {pool.mark}", *evidence]
    return Twin(
        pools=pool_twins,
        text=render(pools=sections, remarks=header, errors=marks),
        remarks=[*equivalent_weights, *_caveats(fits, leftover, is_stopped=clock.is_stopped())],
        grade=grade,
        evidence=[*bundle.manifest.remarks, *loop],
        assumed=list(_assumptions(open_loop, leftover, closed)),
        open_loop=open_loop,
        closed_loop=None if closed is None else round(closed.share, 4),
    )


class _Time:
    """The processor time that a twin may take, and whether its user stopped it."""

    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        self.is_stopped = is_stopped
        began = process_time()
        self.search_ends = began + SEARCH_SHARE * MOST_TIME
        self.ends = began + MOST_TIME

    @property
    def left(self) -> float:
        """Seconds until all must be done; none if the user stopped it."""
        return 0.0 if self.is_stopped() else max(0.0, self.ends - process_time())


OPEN_LOOP = (
    "as jobs do that other jobs release; here they come when they came, "
    "although they would come sooner on a faster farm"
)


def certainty_of(
    pools: Sequence[PoolTwin],
    played: Sequence[Attempt],
    open_loop: Releases | None,
    closed: ClosedLoop | None,
    changes: Sequence[ForeseenChange],
) -> Certainty:
    """Return how sure an answer of a twin can be.

    Sure: each pool waits as recorded job by job, and nothing that the records leave open decides
    what comes on another farm, when, and for how long.
    """
    grades = {pool.grade for pool in pools}
    if "none" in grades:
        return "cannot-tell"
    is_capped = any(flag.limit is not None for pool in pools for flag in pool.flags)
    has_drawn_jobs = closed is not None and closed.drawn + closed.added > 0
    is_surprised = not all(change.holds for change in changes)
    is_load_unsure = open_loop is not None or has_drawn_jobs or cut_short(played) >= CUT_SHORT
    if is_load_unsure or is_capped or is_surprised or grades != {"each job"}:
        return "likely"
    return "sure"


def _assumptions(
    open_loop: Releases | None,
    leftover: tuple[dict[str, object], str] | None,
    closed: ClosedLoop | None,
) -> Iterator[Assumption]:
    """Yield what the records do not say, and what would be different otherwise."""
    if open_loop is not None:
        yield Assumption(
            what="arrivals",
            value="as recorded",
            otherwise="released by other jobs, they come sooner on a faster farm and later on a "
            "slower one, so a change of its size does less",
        )
    if closed is not None and closed.released and closed.explicit < 1:
        yield Assumption(
            what="what releases jobs",
            value=closed.origin,
            otherwise="a job that needs less comes sooner than it does here where others are late",
        )
    yield Assumption(
        what="run times",
        value="as recorded",
        otherwise="other machines, caches or contention change run times, and waits with them",
    )
    if leftover is not None:
        _, reason = leftover
        yield Assumption(what=UNJUDGED, value="as many runners as jobs at once", otherwise=reason)


def _search_pools(
    pools: Sequence[tuple[Shape, PoolLoad]], order: Order, tell: Tell, clock: _Time
) -> list[_Fitted]:
    """Return the best candidate for each pool, within a common budget of processor time.

    The budget is shared by the number of jobs; what a pool does not use goes to the next ones.
    """
    names = pool_names([shape for shape, _ in pools])
    total_jobs = jobs_left = sum(len(load.attempts) for _, load in pools)
    fits = []
    for name, (shape, load) in zip(names, pools, strict=True):
        jobs = len(load.attempts)
        on_progress = part(
            partial(tell, f"pool {name} of {many(jobs, 'job')}"),
            begin=(total_jobs - jobs_left) / total_jobs,
            length=jobs / total_jobs,
        )
        now = process_time()
        until = now + max(0.0, clock.search_ends - now) * jobs / jobs_left
        limit = _Limit(now, until, clock.is_stopped)
        fits.append(_fitted(name, shape, load, order, limit, on_progress))
        jobs_left -= jobs
    return fits


def _pool_documents(fits: Sequence[_Fitted], ran: Sequence[Attempt]) -> list[dict[str, object]]:
    """Return the pools as the scenario has them; farm time begins with the first arrival."""
    first_arrival = min(attempt.arrived_at for attempt in ran)
    has_labels = any(attempt.platform for attempt in ran)
    return [
        pool_document(
            fit.name,
            fit.shape,
            fit.candidate,
            fit.load.begins - first_arrival,
            labelled=has_labels,
        )
        for fit in fits
    ]


def _start_of_scenario(fits: Sequence[_Fitted], ran: Sequence[Attempt]) -> str:
    """Return weekday and time of the first arrival; empty if unknown and of no effect."""
    first_arrival = min(attempt.arrived_at for attempt in ran)
    follows_clock = any(fit.candidate.algorithm == "manual" for fit in fits)
    has_dates = first_arrival >= CALENDAR
    if not follows_clock and not has_dates:
        return ""
    return start_of(first_arrival, fits[0].shape.clock.ahead)


def _check_pools(
    fits: Sequence[_Fitted],
    documents: Sequence[dict[str, object]],
    order: Order,
    written: Written,
    tell: Tell,
    clock: _Time,
    *,
    has_waits: bool,
) -> list[PoolTwin]:
    """Hold each pool of the written scenario against the second half of its records.

    How much of that is done is told anew, from 0 on: how long it takes has nothing to do with how
    long the search took.
    """
    pool_twins = []
    for number, (fit, document) in enumerate(zip(fits, documents, strict=True)):
        on_progress = part(
            partial(tell, f"checking pool {fit.name}"),
            begin=number / len(fits),
            length=1 / len(fits),
        )
        on_progress(0.0)
        check = _PoolCheck(fit, order, written, clock, on_progress)
        pool_twins.append(check.twin(document, has_waits=has_waits))
    return pool_twins


def _equivalent_weights(pools: Sequence[tuple[Shape, PoolLoad]], order: Order) -> list[str]:
    """Return, for the pool with the most waiting, which other weights explain it as well."""
    shape, load = max(pools, key=_waiting)
    pickup_time, _ = times_of(shape)
    return list(weights_alike(load, order, pickup_time))


def _waiting(pool: tuple[Shape, PoolLoad]) -> float:
    _, load = pool
    return float(load.waited.sum())


def _caveats(
    fits: Sequence[_Fitted],
    leftover: tuple[dict[str, object], str] | None,
    *,
    is_stopped: bool,
) -> Iterator[str]:
    """Yield what the reader of a twin must know about how it was made."""
    if is_stopped:
        yield "stopped: the best of what was tried until then"
    elif any(fit.less_far for fit in fits):
        spent = f"{readable_span(SEARCH_SHARE * MOST_TIME)} of a processor"
        slow = "" if is_compiled() else WITHOUT_KERNEL
        yield f"searched less far: the best of what was tried in {spent}{slow}"
    if any(fit.shape.platforms == ("",) and fit.shape.ever > 1 for fit in fits):
        yield ONE_POOL
    if leftover is not None:
        _, reason = leftover
        yield f"{UNJUDGED}: {reason}"


def order_of(pools: Sequence[tuple[Shape, PoolLoad]]) -> Order:
    """Return the order of jobs, as the choices of the pool show where most is waited.

    A scenario has one order. {}: by arrival, or no pool shows it.
    """
    for shape, load in sorted(pools, key=lambda one: -float(one[1].waited.sum())):
        order = order_seen(load, times_of(shape)[0])
        if order is not None:
            return order
    return {}


def sizing_of(shape: Shape, load: PoolLoad, order: Order) -> Candidate | None:
    """Return what sizes a pool, of the commonest algorithms, after a short search.

    None: a fixed number of runners is as near, or the pool needs no other.
    """
    if shape.ephemeral or shape.is_fixed or shape.is_replaced:
        return None
    player = Player(shape, load)
    some = telling(load, len(load.waited), MOST_CALIBRATED)
    until = process_time() + MOST_TIME_FIRST
    search = Search(
        lambda one: player.play(one, some), load.waited[some], lambda: process_time() >= until
    )
    common = [one for one in candidates_of(shape) if one.algorithm in COMMON and one.usual]
    # far apart ones first, as time may not suffice for all
    apart = [one for first in range(STEP) for one in common[first::STEP]]
    best = search.best(_in_order(apart, order), 0)[0].candidate
    return None if best.algorithm == "fixed" else best


def _errors(pools: Sequence[PoolTwin]) -> dict[str, float]:
    """Return the errors of all jobs checked as scenarios have them; p95: of the worst pool.

    None are known where no pool could be checked, or no job started.
    """
    recorded, simulated, apart = _mean_waits(pools)
    if not recorded or not math.isfinite(simulated):
        return {}
    checks = [one.check for one in pools if one.check is not None]
    # a change may do by chance what a repetition does
    p95s = [
        _at_least(one.p95_error.value, one.spread[1] / max(1e-9, one.recorded_p95))
        for one in checks
        if one.loaded
    ]
    spread = sum(one.jobs * one.spread[0] for one in checks) / sum(one.jobs for one in checks)
    return {
        "mean": _at_least(simulated / recorded - 1, spread / recorded),
        "p95": max(p95s, key=abs, default=0.0),
        "per_job": apart / recorded,
    }


def _at_least(error: float, spread: float) -> float:
    return math.copysign(max(abs(error), spread), error)


def _mean_waits(pools: Sequence[PoolTwin]) -> list[float]:
    """Return the mean wait of all jobs checked, recorded and simulated, and the error per job."""
    checks = [one.check for one in pools if one.check is not None]
    rows = [(one.recorded_mean, one.simulated_mean, one.error_per_job.value) for one in checks]
    jobs = np.array([one.jobs for one in checks])
    found: list[float] = (jobs @ np.reshape(rows, (-1, 3)) / max(1, jobs.sum())).tolist()
    return found


class _Limit(NamedTuple):
    """How long a pool may be searched: instants of processor time, seconds."""

    begins: float
    until: float
    is_stopped: Callable[[], bool]

    @property
    def is_over(self) -> bool:
        """Whether to end with the best so far."""
        return process_time() >= self.until or self.is_stopped()

    @property
    def share(self) -> float:
        """The share of the time that is spent."""
        return (process_time() - self.begins) / max(1e-9, self.until - self.begins)


class _Fitted(NamedTuple):
    """A pool with the candidate that waits as the first half of its records did."""

    name: str
    shape: Shape
    load: PoolLoad
    middle: int
    candidate: Candidate
    played: int
    evidence: list[str]
    flags: list[Flag]
    #: the search ended early
    less_far: bool


def _fitted(
    name: str,
    shape: Shape,
    load: PoolLoad,
    order: Order,
    limit: _Limit,
    show: Callable[[float], None],
) -> _Fitted:
    middle = _middle(load.arrived)
    flags = list(flags_of(shape, load))
    limit_of_pool = next((flag.limit for flag in flags if flag.limit is not None), None)
    if limit_of_pool is not None:
        shape = limited_to(shape, load, limit_of_pool)
    half = middle if middle >= ENOUGH else len(load.waited)
    played = slice(0, min(half, MOST_CALIBRATED))
    if any(one.first_plan is not None for one in candidates_of(shape)):
        played = telling(load, half, MOST_CALIBRATED)
    # no pool of slots explains it: the first one shows by how much
    is_hopeless = any(
        flag.kind in HOPELESS and not flag.small and flag.limit is None for flag in flags
    )
    if is_hopeless:
        limit = limit._replace(until=0.0)
    fits, search, hidden = _calibrated(shape, load, order, played, limit, show)
    candidate = fits[0].candidate
    if candidate.algorithm == "manual":
        # runners that come and go seem idle while they are away
        flags = [one for one in flags if one.kind not in ("idle runners", "never saturated")]
    if hidden is not None and not {one.kind for one in flags} & EXPLAINED:
        flags.append(hidden)
    less_far = search.is_over and not is_hopeless
    evidence = [
        *evidence_of(shape, candidate, f" (best of {search.played} tried)"),
        *search.evidence(fits),
        *shape.tries.evidence(name),
    ]
    return _Fitted(name, shape, load, middle, candidate, search.played, evidence, flags, less_far)


class _PoolCheck:
    """Holds a pool, as it is written, against the second half of its records."""

    def __init__(
        self,
        fit: _Fitted,
        order: Order,
        written: Written,
        clock: _Time,
        on_progress: Callable[[float], None],
    ) -> None:
        self.fit = fit
        self.order = order
        self.written = written
        self.clock = clock
        self.on_progress = on_progress
        self.recorded = fit.load.waited[fit.middle :]

    def twin(self, document: dict[str, object], *, has_waits: bool) -> PoolTwin:
        """Return the pool and how well it waits; ``has_waits``: some job of the farm waited."""
        fit, load = self.fit, self.fit.load
        checked: Check | None = None
        sides: Triangle | None = None
        hours: list[HourCheck] = []
        if min(fit.middle, len(self.recorded)) >= ENOUGH:
            waits = self.written.waits(load)
            checked = self._check(waits[fit.middle :])
            arrived_at = load.begins + fit.shape.clock.ahead + load.arrived[fit.middle :]
            hours = by_hour(arrived_at, self.recorded, waits[fit.middle :])
            self.on_progress(REPEATED)
            sides = self._triangle(waits)
        verdict = verdict_of(checked, fit.flags, has_waits=has_waits)
        return PoolTwin(
            name=fit.name,
            platforms=fit.shape.platforms,
            algorithm=fit.candidate.algorithm,
            document=document,
            scheduling=dict(self.order),
            shape=fit.shape,
            evidence=fit.evidence,
            flags=fit.flags,
            check=checked,
            hours=hours,
            triangle=sides,
            played=fit.played,
            grade=verdict.grade,
            believable=verdict.grade in BELIEVABLE,
            job_by_job=verdict.grade == "each job",
            verdict=verdict.text,
            mark=verdict.mark,
        )

    def _check(self, simulated: Floats) -> Check:
        """Return how far simulated waits are from the recorded ones, with repetitions if need be.

        A small difference may grow in a pool whose size follows its queue, or whose order is not
        that of arrival, so that other jobs wait, and as long on average. Where time is short it is
        repeated less often.
        """
        shape = self.fit.shape
        first = check(self.recorded, simulated)
        is_random = shape.loss_rate > 0
        follows_queue = self.fit.candidate.algorithm not in ("fixed", "manual")
        is_chaotic = follows_queue or bool(self.order) or self.written.is_closed
        is_near = first.job_by_job and first.mean_and_p95_hold
        if not is_random and (is_near or not is_chaotic):
            return first
        draws = []
        for number in range(1, REPETITIONS + 1):
            has_time = number <= LEAST_REPETITIONS or self.clock.left > 0
            if has_time or self.written.has(number):
                draws.append(self.written.waits(self.fit.load, number)[self.fit.middle :])
            self.on_progress(REPEATED * number / REPETITIONS)
        place = median_place(draws) if is_random else 0
        return check_of_draws(self.recorded, draws, place, is_random=is_random)

    def _triangle(self, waits: Floats) -> Triangle | None:
        """Return how jobs like the recorded ones wait; None: there is no time for them."""
        if not self.clock.left:
            return None
        player = Player(self.fit.shape, self.fit.load)
        candidate = msgspec.structs.replace(self.fit.candidate, scheduling=self.order)
        return triangle(
            self.fit.load, waits, lambda jobs, seed: player.play_others(candidate, jobs, seed)
        )


def _middle(arrived: Floats) -> int:
    """Return where the second half begins: in time, or in jobs if one half would have too few."""
    place = int(np.searchsorted(arrived, (arrived[0] + arrived[-1]) / 2))
    return place if min(place, len(arrived) - place) >= ENOUGH else len(arrived) // 2


def _calibrated(
    shape: Shape,
    load: PoolLoad,
    order: Order,
    part: slice,
    limit: _Limit,
    show: Callable[[float], None],
) -> tuple[list[Fit], Search, Flag | None]:
    """Return the candidate that waits as this part of the jobs did, then other algorithms' best.

    The flag is there if jobs were started in another ``order`` than shows.
    """
    overtaken = overtaking(load, shape)
    in_order = shape.hosted or overtaken < OVERTAKEN
    # otherwise later jobs overtake, too
    more = 0 if in_order else (part.stop - part.start) // 2
    played, recorded = slice(part.start, part.stop + more), load.waited[part]
    player = Player(shape, load)
    # in a wrong order no number fits
    scheduling = as_recorded(order) if order or not in_order else {}
    candidates = list(candidates_of(shape))

    def play(candidate: Candidate) -> Floats:
        tried = search.played / (len(candidates) + MOST_SEARCHED)
        show(min(1.0, max(limit.share, tried)))
        return player.play(candidate, played)

    search = Search(play, recorded, lambda: limit.is_over)
    is_shared = "fair_share" in order
    fits = search.best(_in_order(candidates, scheduling), 0 if is_shared else ANEW)
    if is_shared and fits[0].error > EXACT * float(recorded.mean()) and not search.is_over:
        # that of the starts does not tell which of the free runners a team takes
        fits = min(fits, search.best(_in_order(candidates, order)), key=lambda some: some[0].error)
    if shape.delays and explains_no_more(fits[0], recorded):
        fits = [search.fit(delayed(shape))]
    hidden = None
    if not (in_order or order):
        by_arrival = search.fit(msgspec.structs.replace(fits[0].candidate, scheduling={}))
        if by_arrival.error - fits[0].error > SMALL:
            hidden = labels_of_a_part(shape, load, overtaken) or hidden_order(overtaken)
    return fits, search, hidden


def _in_order(candidates: Sequence[Candidate], order: Order) -> list[Candidate]:
    return [msgspec.structs.replace(one, scheduling=order) for one in candidates]


def write_twin(
    bundle: Bundle,
    source: Path | None,
    out: Path,
    tell: Tell = lambda *_: None,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    strict: bool = False,
) -> Twin:
    """Make the twin of a bundle and write its scenario.

    It is written however well it waits as the farm did, as the best model that there is: its pools
    are graded, and answers that rest on one that is not believable say so first.

    Args:
        bundle: the records.
        source: the bundle's directory; None: it is written beside ``out``.
        out: the new scenario.
        tell: called with the current step, and the share of the work that is done (0 to 1).
        is_stopped: whether the search is to end with what is known so far.
        strict: write nothing unless all pools are believable.

    Raises InputError where ``out`` exists.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    closed = closed_loop_of(bundle)
    if closed is not None:
        source = None
    place = source or out.with_suffix(".records")
    if source is None and place.exists():
        raise InputError(f"{place}: exists already, and the records would be kept there")
    twin = twin_of(bundle, os.path.relpath(place, out.parent), tell, is_stopped, closed)
    if strict and not twin.believable:
        return twin
    if source is None:
        write_bundle(place, bundle if closed is None else closed.bundle)
    write_document(out, twin.text)
    return twin
