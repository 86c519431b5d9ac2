"""Makes a twin: the farm in a bundle as a scenario, and how well it waits as that farm did."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.errors import InputError, TraceError
from farm.core.fields import json_name
from farm.records.attempt import Attempt
from farm.records.bundle import Bundle, write_bundle
from farm.records.columns import CALENDAR
from farm.records.reading import part
from farm.records.traces.bundle import retries_first
from farm.results.formatting import readable_percent, readable_span
from farm.sim.engines import is_compiled
from farm.units import many
from farm.whole_files import write_document
from farm_twin.twins.baseline import (
    Check,
    HourCheck,
    by_hour,
    check,
    check_of_draws,
    median_place,
)
from farm_twin.twins.calibration import ANEW, EXACT, MOST_SEARCHED, Fit, Search, explains_no_more
from farm_twin.twins.candidates import Candidate, candidates_of, delayed
from farm_twin.twins.flags import OVERTAKEN, Flag, flags_of, hidden_order, overtaking
from farm_twin.twins.orders import Order, as_recorded, order_seen, weights_alike
from farm_twin.twins.pools import PoolLoad, Shape, pools_of, telling
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
from farm_twin.twins.timetable import start_of
from farm_twin.twins.triangle import Triangle, triangle
from farm_twin.twins.tries import retries_go_first
from farm_twin.twins.twin_players import Player, Written, retries_of
from farm_twin.twins.verdict import ENOUGH, ON_AVERAGE, REPETITIONS, verdict_of

Tell = Callable[[str, float], None]
SMALL = 5.0
"""Seconds by which jobs may err more by arrival than in the order of the recorded starts."""
EXPLAINED = {"cap", "gate", "idle runners"}
"""Flags that explain why jobs overtake each other."""
HOPELESS = {"several slots", "cap", "gate"}
"""Flags of what no pool of slots waits for, however it is sized."""
SEARCHED = 0.8
"""Share of the work that is the search, about; the rest holds what was found against records."""
MOST_CALIBRATED = 10_000
"""Jobs of the first half that are played to find a candidate."""
MOST_TIME = 60.0
"""Seconds of a processor that are spent to find the candidates of all pools, at most."""
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
    believable: bool
    #: believable job by job, too, and not only on average
    job_by_job: bool
    #: in one sentence, why or why not
    verdict: str


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

    @property
    def believable(self) -> bool:
        """Whether every pool waits as the farm did."""
        return all(one.believable for one in self.pools)

    @property
    def sentence(self) -> str:
        """What was found, in one sentence."""
        doubtful = [one.name for one in self.pools if not one.believable]
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


def twin_of(bundle: Bundle, path: str, tell: Tell = lambda *_: None) -> Twin:
    """Return the twin of a farm, from the records in a bundle.

    Each pool is searched on the first half of its records and checked on the second. The search
    plays one pool at a time. The check plays the scenario file itself, written and read back, so
    it covers the rounding of numbers and all pools together.

    Args:
        bundle: the records.
        path: where the bundle lies, relative to the scenario's folder.
        tell: called with the current step, and the share of the work that is done (0 to 1).

    Raises TraceError for records without jobs, or with too few waits to check a twin.
    """
    trace_format = "bundle"
    if retries_go_first(bundle.attempts):
        trace_format = "bundle-retries-first"
        bundle = msgspec.structs.replace(bundle, attempts=retries_first(bundle.attempts))
    ran = [attempt for attempt in bundle.attempts if attempt.ran is not None]

    pools = pools_of(bundle)
    _require_enough_waits(pools, bundle.manifest.resolution_time)
    shapes = [shape for shape, _ in pools]
    order = order_of(pools)
    fits = _search_pools(pools, order, tell)

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
        sections,
        {"policy": "fifo", **order, **retries_of(shapes)},
        starts=_start_of_scenario(fits, ran),
        trace_format=trace_format,
    )

    draft = Written(render(remarks=(), errors=None), ran)
    pool_twins = _check_pools(fits, documents, order, draft, tell)
    equivalent_weights = _equivalent_weights(pools, order)
    header = [
        f"A twin of the farm whose records are in {path}.",
        *(f"{pool.name}: {pool.verdict}" for pool in pool_twins),
        *equivalent_weights,
    ]
    return Twin(
        pools=pool_twins,
        text=render(remarks=header, errors=_errors(pool_twins)),
        remarks=[*equivalent_weights, *_caveats(fits, leftover)],
    )


def _search_pools(
    pools: Sequence[tuple[Shape, PoolLoad]], order: Order, tell: Tell
) -> list[_Fitted]:
    """Return the best candidate for each pool, within a common budget of processor time.

    The budget is shared by the number of jobs; what a pool does not use goes to the next ones.
    """
    names = pool_names([shape for shape, _ in pools])
    total_jobs = jobs_left = sum(len(load.attempts) for _, load in pools)
    deadline = process_time() + MOST_TIME
    fits = []
    for name, (shape, load) in zip(names, pools, strict=True):
        jobs = len(load.attempts)
        on_progress = part(
            partial(tell, f"pool {name} of {many(jobs, 'job')}"),
            begin=SEARCHED * (total_jobs - jobs_left) / total_jobs,
            length=SEARCHED * jobs / total_jobs,
        )
        now = process_time()
        budget = max(0.0, deadline - now) * jobs / jobs_left
        fits.append(_fitted(name, shape, load, order, now + budget, on_progress))
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
) -> list[PoolTwin]:
    """Hold each pool of the written scenario against the second half of its records."""
    pool_twins = []
    for number, (fit, document) in enumerate(zip(fits, documents, strict=True)):
        done = SEARCHED + (1 - SEARCHED) * number / len(fits)
        tell(f"pool {fit.name} against its records", done)
        pool_twins.append(_checked(fit, document, order, written))
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
    fits: Sequence[_Fitted], leftover: tuple[dict[str, object], str] | None
) -> Iterator[str]:
    """Yield what the reader of a twin must know about how it was made."""
    if any(fit.less_far for fit in fits):
        spent = f"{readable_span(MOST_TIME)} of a processor"
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


def _errors(pools: Sequence[PoolTwin]) -> dict[str, float] | None:
    """Return the errors of all jobs checked as scenarios have them; p95: of the worst pool."""
    recorded, simulated, apart = _mean_waits(pools)
    if not recorded:
        return None
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


def _require_enough_waits(pools: Sequence[tuple[Shape, PoolLoad]], resolution: float) -> None:
    """Raise TraceError unless some pool has enough jobs, and some job waited."""
    if not pools:
        raise TraceError(
            "found no job with a start, an end and a time from which it waited; allowed: some"
        )
    jobs_in_largest = max(len(load.attempts) for _, load in pools)
    if jobs_in_largest < 2 * ENOUGH:
        raise TraceError(
            f"found {many(jobs_in_largest, 'job')} of a pool at most; allowed: {2 * ENOUGH} or "
            "more, as half of them are needed to check the twin"
        )
    if all(load.waited.max() <= resolution for _, load in pools):
        raise TraceError(
            "every wait is zero: either there always was room, or the records do not have the "
            "instant from which a job waited; allowed: records with waits"
        )


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
    until: float,
    show: Callable[[float], None],
) -> _Fitted:
    middle = _middle(load.arrived)
    flags = list(flags_of(shape, load))
    half = middle if middle >= ENOUGH else len(load.waited)
    played = slice(0, min(half, MOST_CALIBRATED))
    if any(one.first_plan is not None for one in candidates_of(shape)):
        played = telling(load, half, MOST_CALIBRATED)
    # no pool of slots explains it: the first one shows by how much
    is_hopeless = any(one.kind in HOPELESS and not one.small for one in flags)
    until = 0.0 if is_hopeless else until
    fits, search, hidden = _calibrated(shape, load, order, played, until, show)
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


def _checked(one: _Fitted, document: dict[str, object], order: Order, written: Written) -> PoolTwin:
    """Hold the pool, as it is ``written``, against the second half of its records."""
    shape, load, middle = one.shape, one.load, one.middle
    candidate = msgspec.structs.replace(one.candidate, scheduling=order)
    found: Check | None = None
    sides: Triangle | None = None
    hours: list[HourCheck] = []
    if min(middle, len(load.waited) - middle) >= ENOUGH:
        waits = written.waits(load)
        found = check(load.waited[middle:], waits[middle:])
        # a small difference may grow, so that other jobs wait, and as long on average
        chaotic = candidate.algorithm not in ("fixed", "manual") or bool(order)
        if shape.loss_rate or (chaotic and not (found.job_by_job and found.on_average)):
            numbers = range(1, REPETITIONS + 1)
            draws = [written.waits(load, number)[middle:] for number in numbers]
            is_random = shape.loss_rate > 0
            place = median_place(draws) if is_random else 0
            found = check_of_draws(load.waited[middle:], draws, place, is_random=is_random)
        player = Player(shape, load)
        at = load.begins + shape.clock.ahead + load.arrived[middle:]
        hours = by_hour(at, load.waited[middle:], waits[middle:])
        sides = triangle(load, waits, lambda jobs, seed: player.play_others(candidate, jobs, seed))
    believable, verdict = verdict_of(found, one.flags)
    return PoolTwin(
        name=one.name,
        platforms=shape.platforms,
        algorithm=candidate.algorithm,
        document=document,
        scheduling=dict(order),
        shape=shape,
        evidence=one.evidence,
        flags=one.flags,
        check=found,
        hours=hours,
        triangle=sides,
        played=one.played,
        believable=believable,
        job_by_job=believable and found is not None and found.job_by_job,
        verdict=verdict,
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
    until: float,
    show: Callable[[float], None],
) -> tuple[list[Fit], Search, Flag | None]:
    """Return the candidate that waits as this part of the jobs did, then other algorithms' best.

    The flag is there if jobs were started in another ``order`` than shows. ``until``: when the
    search ends, processor time (s).
    """
    overtaken = overtaking(load, shape)
    in_order = shape.hosted or overtaken < OVERTAKEN
    # otherwise later jobs overtake, too
    more = 0 if in_order else (part.stop - part.start) // 2
    played, recorded = slice(part.start, part.stop + more), load.waited[part]
    player = Player(shape, load)
    # in a wrong order no number fits
    scheduling = as_recorded(order) if order or not in_order else {}
    candidates, began = list(candidates_of(shape)), process_time()

    def play(candidate: Candidate) -> Floats:
        spent = (process_time() - began) / max(1e-9, until - began)
        show(min(1.0, max(spent, search.played / (len(candidates) + MOST_SEARCHED))))
        return player.play(candidate, played)

    search = Search(play, recorded, lambda: process_time() >= until)
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
            hidden = hidden_order(overtaken)
    return fits, search, hidden


def _in_order(candidates: Sequence[Candidate], order: Order) -> list[Candidate]:
    return [msgspec.structs.replace(one, scheduling=order) for one in candidates]


def write_twin(
    bundle: Bundle, source: Path | None, out: Path, tell: Tell = lambda *_: None
) -> Twin:
    """Make the twin of a bundle and write its scenario, if any pool is believable.

    Without the bundle's ``source`` (a directory), it is written beside ``out``. Raises InputError
    where ``out`` exists.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    place = source or out.with_suffix(".records")
    if source is None and place.exists():
        raise InputError(f"{place}: exists already, and the records would be kept there")
    twin = twin_of(bundle, os.path.relpath(place, out.parent), tell)
    if not any(one.believable for one in twin.pools):
        return twin
    if source is None:
        write_bundle(place, bundle)
    write_document(out, twin.text)
    return twin
