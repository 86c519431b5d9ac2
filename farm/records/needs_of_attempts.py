"""What jobs need by the word of their system, as needs of the attempts at them.

A system says which *jobs* a job needs. It may have tried those several times, may tell of some that
are not among the records, and may have let a job come although one that it needed had failed, where
that was allowed. A replay plays attempts. So each need becomes one of the last attempt that had
ended when the job came:

- of an attempt that did not end as the need demands, only the end is needed: the job did come;
- a job that was tried before needs the end of its earlier attempt, too: that is what repeated it;
- what had not ended when the job came did not hold it back, whatever its system says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from farm.core.jobs.needs import Need, need_of
from farm.records.attempt import Attempt, Result
from farm.records.reading import Reading

CLOCKS = 1.0
"""Seconds by which a job may come before the end of what released it, in exact records: instants
are rounded, and clocks differ."""
NOT_HELD = "that came before jobs had ended that they need by their system's word"
NOT_THERE = "that need jobs which are not among these records"
"""What is noted of attempts that are so."""

_MET_BY: dict[str, Result] = {"succeeded": "succeeded", "failed": "failed"}


def set_needs(attempts: Sequence[Attempt], reading: Reading, resolution: float) -> None:
    """Let attempts whose ``needs`` name jobs need attempts at these.

    Args:
        attempts: those that are kept, numbered. A need names a job, or a matrix of them.
        reading: where what does not fit is counted.
        resolution: of the instants, seconds.
    """
    if not any(attempt.needs_known for attempt in attempts):
        return
    tries: dict[str, list[Attempt]] = defaultdict(list)
    jobs_of_matrix: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        job = attempt.job or attempt.id
        tries[job].append(attempt)
        if attempt.matrix:
            jobs_of_matrix[attempt.matrix].add(job)
    tolerance = max(CLOCKS, resolution)
    for attempt in attempts:
        if not attempt.needs_known:
            continue
        needs: dict[str, None] = {}
        is_held = has_all = True
        for text in attempt.needs:
            need = need_of(text)
            jobs = [need.job] if need.job in tries else sorted(jobs_of_matrix.get(need.job, ()))
            has_all = has_all and bool(jobs)
            for job in jobs:
                last = _last_ended(tries[job], attempt, tolerance)
                if last is None:
                    is_held = False
                else:
                    needs[_text(need, last)] = None
        before = _last_ended(tries[attempt.job or attempt.id], attempt, tolerance)
        if before is not None and before.attempt < attempt.attempt:
            needs[f"{before.id}:ended"] = None
        reading.noted[NOT_HELD] += not is_held
        reading.noted[NOT_THERE] += not has_all
        attempt.needs = tuple(needs)
    for why in (NOT_HELD, NOT_THERE):
        if not reading.noted[why]:
            del reading.noted[why]


def _last_ended(tries: Sequence[Attempt], attempt: Attempt, tolerance: float) -> Attempt | None:
    """Return the attempt at a job that had ended last when another one came; None: there is none.

    Of one that does not say when it came, when it started counts.
    """
    came_at = attempt.eligible_at
    if came_at is None:
        came_at = attempt.submitted_at if attempt.started_at is None else attempt.started_at
    ended = [
        other
        for other in tries
        if other is not attempt
        and other.finished_at is not None
        and other.finished_at <= came_at + tolerance
        and other.arrived_at <= attempt.arrived_at
    ]
    return max(ended, key=lambda other: (other.finished_at or 0.0, other.attempt), default=None)


def _text(need: Need, met_by: Attempt) -> str:
    condition = need.condition
    if _MET_BY.get(condition) != met_by.result:
        condition = "ended"
    return f"{met_by.id}:{condition}"
