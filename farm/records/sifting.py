"""What holds for the records of every source: copies, clocks that disagree, and ends forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.columns import CALENDAR
from farm.records.reading import Reading, progress

FEW, MOST_BACKWARDS = 10, 0.1
"""Attempts against the order of time, and their share, from which no wait is evidence."""
FAR, FEW_AFAR = 366 * 86400.0, 0.01
"""Seconds between two times, from which one of them is a clock's error, not a wait; and the share
of attempts (or one alone) that may be so far from all others."""
NOISE = 2.0
"""Seconds by which clocks of whole seconds, or of two machines, may disagree."""


def sifted(found: Iterable[Attempt], reading: Reading, longest_open: float) -> list[Attempt]:
    """Return the attempts that are evidence, by when they could start (ties: by id).

    What is left out or corrected is counted in ``reading``.
    """
    attempts = _distinct(found, reading)
    attempts = _without_copies(attempts, reading)
    attempts = _without_epoch(attempts, reading)
    sound = list(reading.attempts(attempts, _sound))
    refuse_clocks(len(attempts) - len(sound), len(attempts))
    attempts = _without_strays(sound, reading)
    attempts = _without_forgotten(attempts, reading, longest_open)
    attempts.sort(key=_place)
    _number(attempts)
    return attempts


def _without_epoch(attempts: list[Attempt], reading: Reading) -> list[Attempt]:
    """Leave out times that are none: zero, where the others are of a calendar."""
    if max((one.submitted_at for one in attempts), default=0.0) < CALENDAR:
        return attempts
    kept = [one for one in attempts if one.submitted_at >= CALENDAR]
    reading.left_out["with a time of 1970, among later ones"] += len(attempts) - len(kept)
    return kept


def refuse_clocks(backwards: int, of: int, where: str = "") -> None:
    """Raise TraceError if too large a part of attempts is against the order of time."""
    if backwards >= max(FEW, MOST_BACKWARDS * of):
        raise TraceError(
            f"{where}{backwards:,} of {of:,} attempts started before they could, ended before they "
            "started, or took more than a year: clocks jump, or times are of several zones; "
            f"allowed: {MOST_BACKWARDS:.0%}"
        )


def _without_strays(attempts: list[Attempt], reading: Reading) -> list[Attempt]:
    """Leave out what arrived years before or after the others, if it is little."""
    groups: list[list[Attempt]] = []
    for one in sorted(attempts, key=_place):
        if not groups or one.arrived_at - groups[-1][-1].arrived_at > FAR:
            groups.append([])
        groups[-1].append(one)
    largest = max(map(len, groups), default=0)
    most = max(1, FEW_AFAR * len(attempts))
    kept = [one for some in groups if len(some) > most or len(some) == largest for one in some]
    why = "of another year than all others: a clock jumped"
    reading.left_out[why] += len(attempts) - len(kept)
    return kept


def _place(attempt: Attempt) -> tuple[float, int, str]:
    # ids that count up are ordered as numbers
    return attempt.arrived_at, len(attempt.id), attempt.id


def _distinct(found: Iterable[Attempt], reading: Reading) -> list[Attempt]:
    """Leave out what came twice: pages overlap, messages are repeated."""
    kept: dict[str, Attempt] = {}
    for number, attempt in enumerate(found, 1):
        reading.share(attempt)
        attempt.id = attempt.id or f"{number:06}"
        before = kept.get(attempt.id)
        if before is not None:
            reading.left_out["that came twice"] += 1
            if progress(attempt) <= progress(before):
                continue
        kept[attempt.id] = attempt
    return list(kept.values())


def _without_copies(attempts: list[Attempt], reading: Reading) -> list[Attempt]:
    """Leave out the copies of earlier attempts that a re-run lists with its own."""
    again = {one.matrix for one in attempts if one.attempt > 1}
    first: dict[tuple[object, ...], int] = {}
    for one in attempts:
        if one.matrix in again:
            key = _times(one)
            first[key] = min(one.attempt, first.get(key, one.attempt))
    kept = []
    for one in attempts:
        is_old = one.finished_at is not None and one.finished_at < one.submitted_at - NOISE
        ran = one.started_at is not None
        if one.attempt > 1 and (is_old or (ran and first[_times(one)] < one.attempt)):
            reading.left_out["copied from earlier attempts"] += 1
        else:
            kept.append(one)
    return kept


def _times(one: Attempt) -> tuple[object, ...]:
    return one.matrix, one.job or one.kind, one.runner, one.started_at, one.finished_at


def _sound(one: Attempt, reading: Reading) -> Attempt:
    """Check the order of the instants; by as little as clocks disagree, they are corrected."""
    if one.eligible_at is not None:
        until = one.started_at if one.started_at is not None else one.finished_at
        if until is not None and until < one.eligible_at:
            if until < one.eligible_at - NOISE:
                reading.leave_out("with a negative wait")
            one.eligible_at = until
            reading.noted["waits below zero by 2 s or less, taken as zero"] += 1
    if (one.finished_at or one.started_at or 0.0) - one.arrived_at > FAR:
        reading.leave_out("that took more than a year: a clock jumped")
    if one.started_at is not None and one.finished_at is not None:
        if one.finished_at < one.started_at - NOISE:
            reading.leave_out("that ended before they started")
        one.finished_at = max(one.started_at, one.finished_at)
    if one.eligible_at is not None:
        one.submitted_at = min(one.submitted_at, one.eligible_at)
    return one


def _without_forgotten(
    attempts: list[Attempt], reading: Reading, longest_open: float
) -> list[Attempt]:
    """Leave out what has been open for longer than the system lets anything be."""
    last_at = max((one.finished_at or one.started_at or 0.0 for one in attempts), default=0.0)
    kept = []
    for one in attempts:
        since = one.submitted_at if one.started_at is None else one.started_at
        if one.finished_at is None and last_at - since > longest_open:
            reading.left_out["open for days: their ends were forgotten"] += 1
        else:
            kept.append(one)
    return kept


def _number(attempts: list[Attempt]) -> None:
    """Number the attempts of each job, where the source does not."""
    counts: Counter[str] = Counter()
    for one in attempts:
        if one.attempt == 0:
            counts[one.job or one.id] += 1
            one.attempt = counts[one.job or one.id]
