"""How exact the instants of records are, as the records themselves show it.

A system says how exact its clock is, but its data were often rounded on their way: run times to
minutes, instants to whole seconds, each column by another rule. Where an end is a start plus a
rounded time, every job seems to overlap the next one on its runner, and a runner of one slot seems
to have two. So the resolution is read from the data, by one rule for all sources.

What is different where times are rounded: overlaps up to the resolution need no second slot
(``runners``), a wait up to it is none, instants out of order by no more mean nothing, and a verdict
that rests on such overlaps or waits says so and is weaker (``farm_twin.diagnosis``).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from farm.columns import Floats
from farm.records.attempt_columns import AttemptColumns
from farm.records.runners import ROUNDING, RunnerRows

#: steps to which times are rounded, seconds: of seconds, minutes, hours and days with decimals
STEPS = (
    3600.0,
    1800.0,
    900.0,
    864.0,
    600.0,
    360.0,
    300.0,
    86.4,
    60.0,
    36.0,
    30.0,
    20.0,
    15.0,
    10.0,
    8.64,
    6.0,
    5.0,
    3.6,
    2.0,
    1.0,
    0.6,
    0.5,
    0.36,
    0.2,
    0.1,
    0.06,
    0.05,
    0.02,
    0.01,
    0.005,
    0.002,
    0.001,
)


MAX_TIMES = 5_000
"""Times that are tried for a step: of more, evenly chosen ones."""
RIGHT_AFTER = 1.0
"""Seconds after an end within which a job starts at it."""


class ResolutionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How plainly the data must show that they were rounded."""

    #: different run times from which their common step is no chance
    min_distinct: int = 10
    #: the same, of this number of jobs or more, for a step that is short beside the mean run time
    min_distinct_of_many: int = 3
    min_jobs: int = 20
    max_share_of_mean: float = 0.25
    #: share of the times that are whole steps: the others were corrected by hand, or by the source
    min_share_on_step: float = 0.98
    #: share of the mean run time up to which a step of all instants counts: by a longer one, jobs
    #: that really ran at once would seem to follow each other
    max_step_share: float = 0.1
    #: an overlap of two jobs is a sliver up to this share of their runner's mean run time, if there
    #: are that number of them: by chance, jobs that really ran at once overlap by any share
    sliver_shares: tuple[tuple[float, int], ...] = ((0.25, 20), (0.05, 5), (0.01, 1))
    #: seconds from which a step of a single wait or run time of all jobs is no chance
    min_step_of_one: float = 1800.0
    #: jobs that waited, from which a step of their starts is no chance
    min_waited: int = 10
    #: share of the jobs that waited which start right at an end: then neither was rounded
    min_share_at_end: float = 0.5
    #: and up to this share of the shorter one of the two
    max_share_of_shorter: float = 0.5
    #: share of a runner's overlaps that are slivers, if it has room for one job
    min_share_of_slivers: float = 0.9


LIMITS = ResolutionLimits()


class Resolution(msgspec.Struct, frozen=True):
    """How exact instants are."""

    #: seconds by which they may be out of order without meaning it
    time: float
    #: jobs that began before the one ahead of them on their runner had ended, by no more than that
    slivers: int = 0


def resolution_of(attempts: AttemptColumns, of_source: float) -> Resolution:
    """Return how exact the instants of attempts are.

    It is the largest of three: what the source says, the common step of the run times, and the
    longest overlap where overlaps on a runner are always slivers.

    Args:
        attempts: in any order.
        of_source: what the source says, seconds.
    """
    has_run = ~np.isnan(attempts.ran)
    ran = attempts.taken(has_run)
    step = _step_of_run_times(ran.ran, ran.started_at)
    time = max(of_source, step, _step_of_instants(ran))
    rounded = rounded_step(ran)
    if len(ran.ran) and rounded <= LIMITS.max_share_of_mean * float(ran.ran.mean()):
        time = max(time, rounded)
    overlaps = _overlaps(attempts, of_source)
    longest = _longest_sliver(overlaps, time)
    time = max(time, longest)
    slivers = int(((overlaps.lengths > of_source + ROUNDING) & (overlaps.lengths <= time)).sum())
    if time == of_source:
        slivers = 0
    return Resolution(time, slivers)


def _step_of_run_times(run_times: Floats, started_at: Floats) -> float:
    """Return the largest step of which run times are multiples, seconds; 0: there is none.

    Starts that are multiples of it too were rounded alike: then jobs are in the right order, and
    the step only counts if it is short.
    """
    run_times = run_times[run_times > 0]
    distinct = len(np.unique(np.round(run_times, 6)))
    if distinct < LIMITS.min_distinct_of_many:
        return 0.0
    step = next((step for step in STEPS if _are_multiples(run_times, step)), 0.0)
    if not step:
        return 0.0
    share_of_mean = step / float(run_times.mean())
    if _are_multiples(started_at - started_at.min(), step):
        are_enough = distinct >= LIMITS.min_distinct
        return step if are_enough and share_of_mean <= LIMITS.max_step_share else 0.0
    is_short = len(run_times) >= LIMITS.min_jobs and share_of_mean <= LIMITS.max_share_of_mean
    return step if distinct >= LIMITS.min_distinct or is_short else 0.0


def _step_of_instants(attempts: AttemptColumns) -> float:
    """Return the step of a column of instants that was rounded alone, seconds; 0: none was.

    Ends that are multiples of a step, where starts are not, were rounded, and so were starts, where
    arrivals are not. (The other way round it may be jobs that come at fixed intervals.)
    """
    if len(attempts.ran) < LIMITS.min_jobs:
        return 0.0
    arrivals, starts, ends = (
        step_of(instants)
        for instants in (attempts.submitted_at, attempts.started_at, attempts.finished_at)
    )
    pairs = [(starts, arrivals), (ends, starts)]
    waits = attempts.waited[attempts.waited > 0]
    if len(np.unique(waits)) >= LIMITS.min_distinct_of_many:
        pairs.append((step_of(waits), arrivals))  # starts are arrivals and rounded waits
    rounded = [
        step
        for step, before in pairs
        if before < step <= LIMITS.max_share_of_mean * float(attempts.ran.mean())
    ]
    return max(rounded, default=0.0)


def rounded_step(attempts: AttemptColumns) -> float:
    """Return the step to which some times were rounded and others not, seconds; 0: there is none.

    Jobs start when others end. Where those that waited start, or have waited, by whole steps, and
    jobs do not end so, their starts were rounded, even if all of them arrive by whole steps; and so
    were run times of whole steps, where jobs do not start so. A step of all times counts if it is
    long beside the run times: then it hides how many jobs ran at once.
    """
    has_run = ~np.isnan(attempts.ran)
    started_at = attempts.started_at[has_run]
    finished_at = attempts.finished_at[has_run]
    run_times = attempts.ran[has_run]
    if len(run_times) < LIMITS.min_jobs:
        return 0.0
    waits = attempts.waited[has_run]
    has_waited = waits > 0
    waits = waits[has_waited]
    have_waited = len(waits) >= LIMITS.min_waited
    are_distinct = have_waited and len(np.unique(waits)) >= LIMITS.min_distinct_of_many
    step_of_waits = _step_of_spans(waits) if have_waited else 0.0
    step_of_starts = step_of(started_at)
    step_of_ends = step_of(finished_at)
    step_of_run_times = _step_of_spans(run_times[run_times > 0])

    pairs = []
    # a single wait, or run time, of all jobs is usual, unless it is a round one
    is_one_step = have_waited and float(waits.min()) == step_of_waits
    if are_distinct or (is_one_step and step_of_waits >= LIMITS.min_step_of_one):
        pairs.append((step_of_waits, step_of_ends))
    if are_distinct:
        pairs.append((step_of(started_at[has_waited]), step_of_ends))
    if len(np.unique(run_times)) > 1 or step_of_run_times >= LIMITS.min_step_of_one:
        pairs.append((step_of_run_times, step_of_starts))
    step = max((step for step, other in pairs if other < step), default=0.0)
    if step and _start_at_ends(started_at[has_waited], finished_at[run_times > 0]):
        step = 0.0
    if are_distinct and len(np.unique(run_times)) >= LIMITS.min_distinct_of_many:
        common = min(step_of_waits, step_of_starts, step_of_ends)
        if common > LIMITS.max_share_of_mean * float(run_times.mean()):
            step = max(step, common)
    return step


def _start_at_ends(started_at: Floats, finished_at: Floats) -> bool:
    """Return whether most of the jobs that waited start right when a job ends."""
    if not len(started_at) or not len(finished_at):
        return False
    ends = np.sort(finished_at)
    place = np.searchsorted(ends, started_at + ROUNDING, side="right") - 1
    after = started_at - ends[np.clip(place, 0, None)]
    is_at_end = (place >= 0) & (after <= RIGHT_AFTER)
    return float(is_at_end.mean()) >= LIMITS.min_share_at_end


def _step_of_spans(times: Floats) -> float:
    """Return the largest step of which times above zero are multiples, one at least; 0: none."""
    steps = (step for step in STEPS if len(times) and step / 2 < times.max())
    return next((step for step in steps if _are_multiples(times, step)), 0.0)


def step_of(instants: Floats) -> float:
    """Return the largest step of which instants are multiples, seconds; 0: there is none."""
    return next((step for step in STEPS if _are_multiples(instants, step)), 0.0)


def _are_multiples(times: Floats, step: float) -> bool:
    """Return whether times are whole steps, but for what doubles cannot hold."""
    times = times[:: 1 + len(times) // MAX_TIMES]
    off = np.abs(times - np.round(times / step) * step)
    is_whole = off <= max(2e-6, 1e-3 * step)
    return float(is_whole.mean()) >= LIMITS.min_share_on_step


class _Overlaps(msgspec.Struct, frozen=True):
    """Jobs that began before the one ahead of them on their runner had ended."""

    #: by how much, seconds
    lengths: Floats
    #: the run time of the shorter one of the two
    shorter: Floats
    #: the mean run time on that runner
    mean_run_time: Floats
    #: the number of the runner
    runner: NDArray[np.int64]


def _overlaps(attempts: AttemptColumns, beyond: float) -> _Overlaps:
    """Return the overlaps of jobs with the one ahead of them, by more than ``beyond`` seconds."""
    by_runner = RunnerRows.of(attempts)
    rows = by_runner.rows
    runner = by_runner.owners
    has_ended = ~np.isnan(attempts.finished_at[rows])
    rows = rows[has_ended]
    runner = runner[has_ended]
    order = np.lexsort((attempts.started_at[rows], runner))
    rows = rows[order]
    runner = runner[order]

    run_times = attempts.ran[rows]
    jobs = np.bincount(runner, minlength=1)
    mean_of_runner = np.bincount(runner, run_times, minlength=1) / np.maximum(jobs, 1)
    lengths = attempts.finished_at[rows][:-1] - attempts.started_at[rows][1:]
    does_overlap = (runner[:-1] == runner[1:]) & (lengths > beyond + ROUNDING)
    shorter = np.minimum(run_times[:-1], run_times[1:])
    return _Overlaps(
        lengths=lengths[does_overlap],
        shorter=shorter[does_overlap],
        mean_run_time=mean_of_runner[runner[1:][does_overlap]],
        runner=runner[1:][does_overlap],
    )


def _longest_sliver(overlaps: _Overlaps, resolution: float) -> float:
    """Return the longest overlap on runners whose overlaps beyond the resolution are slivers.

    0: there are no such runners.
    """
    lengths = overlaps.lengths
    is_beyond = lengths > resolution + ROUNDING
    if not is_beyond.any():
        return 0.0
    runner = overlaps.runner
    overlaps_of_runner = np.bincount(runner[is_beyond], minlength=int(runner.max()) + 1)
    is_short = is_beyond & (lengths <= LIMITS.max_share_of_shorter * overlaps.shorter)
    candidates = [
        (is_short & (lengths <= share * overlaps.mean_run_time), least)
        for share, least in LIMITS.sliver_shares
    ]
    # a start and an end that were both rounded are off by twice as much
    candidates.append((is_beyond & (lengths <= 2 * resolution + ROUNDING), 1))
    for is_sliver, least in candidates:
        slivers_of_runner = np.bincount(runner[is_sliver], minlength=len(overlaps_of_runner))
        has_slivers = slivers_of_runner >= LIMITS.min_share_of_slivers * overlaps_of_runner
        is_alone = is_sliver & has_slivers[runner]
        if int(is_alone.sum()) >= least:
            return float(lengths[is_alone].max())
    return 0.0
