"""What holds for the records of every source: copies, clocks that disagree, and ends forgotten."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from farm.core.errors import TraceError
from farm.records.attempt import Attempt, grouped
from farm.records.foreign_columns import CALENDAR
from farm.records.labels import LABELS_OF_RUNS, without_labels_of_runs
from farm.records.reading import UNREADABLE, Reading, progress
from farm.records.repeated_hour import placed_in_repeated_hours
from farm.records.spellings import OTHER_SPELLING, joined_spellings

FEW, MOST_BACKWARDS = 10, 0.1
"""Attempts against the order of time, and their share, from which no wait is evidence."""
FAR, FEW_AFAR = 366 * 86400.0, 0.01
"""Seconds between two times, from which one of them is a clock's error, not a wait; and the share
of attempts (or one alone) that may be so far from all others."""
NOISE = 2.0
"""Seconds by which clocks of whole seconds, or of two machines, may disagree."""
MAX_AGE_OF_COPY = 3600.0
"""Seconds by which two records of an attempt may disagree, where ids are unique: one of them may
have been made while it waited or ran."""
MIN_JOBS_OF_CLOCK = 3
"""Jobs of a runner from which its clock is judged."""
MIN_JOBS_OF_CLOCK_AHEAD = 10
"""The same for a clock that is ahead, of which no time is against the order."""
MIN_RUNNERS_BESIDE = 3
"""Runners of a platform from which one of them can be compared with the others."""
SHARE_OF_OTHERS = 0.99
"""Share of the other runners' waits that are shorter than any of a runner whose clock is ahead."""
SPAN_BESIDE = 3600.0
"""Seconds: jobs that arrived in the same such span, or in the one before or after it, found the
same queue, so that the waits of one runner can be compared with those of the others."""
MAX_SHARE_OF_CLOCKS = 0.5
"""Share of the runners whose clocks may be off: if most are, the arrivals' clock is."""

SAME_ID = "with the id of another attempt, and other times: kept as another one"
CLOCK_OFF = "on a runner whose clock is off: moved, their waits not known"
"""What is noted of attempts that are so."""
DOUBTFUL = (
    UNREADABLE,
    "with a negative wait",
    "that ended before they started",
    "that took more than a year",
    "with a time of 1970",
    "of another year",
)
"""How the reasons begin for which attempts are left out that were work."""


def sifted(
    found: Iterable[Attempt], reading: Reading, longest_open: float, *, unique_ids: bool = False
) -> list[Attempt]:
    """Return the attempts that are evidence, by when they could start (ties: by id).

    What is left out or corrected is counted in ``reading``.

    Args:
        found: as they are read, file by file.
        reading: of these files.
        longest_open: how long an attempt may be open, seconds.
        unique_ids: the source gives an id to one attempt alone.
    """
    attempts = _distinct(found, reading, unique_ids=unique_ids)
    attempts = _without_copies(attempts, reading)
    attempts = _without_epoch(attempts, reading)
    attempts = placed_in_repeated_hours(attempts, reading)
    if count := joined_spellings(attempts):
        reading.noted[OTHER_SPELLING] += count
    _move_clocks_of_runners(attempts, reading)
    sound = list(reading.attempts(attempts, _sound))
    refuse_clocks(len(attempts) - len(sound), len(attempts))
    attempts = _without_strays(sound, reading)
    attempts = _without_forgotten(attempts, reading, longest_open)
    attempts.sort(key=_place)
    _number(attempts)
    if count := without_labels_of_runs(attempts):
        reading.noted[LABELS_OF_RUNS] += count
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
    instants = np.sort(np.array([one.arrived_at for one in attempts], np.float64))
    if np.diff(instants).max(initial=0.0) <= FAR:
        return attempts
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
    name = attempt.id
    eligible_at = attempt.eligible_at
    # written out: it is asked for each of very many
    arrived_at = attempt.submitted_at if eligible_at is None else eligible_at
    return arrived_at, len(name), name


def _distinct(found: Iterable[Attempt], reading: Reading, *, unique_ids: bool) -> list[Attempt]:
    """Leave out what came twice: pages overlap, messages are repeated.

    A copy has the times of the other one. What has only its id is another attempt, at the same job
    or at one of another file, where ids are counted anew.
    """
    kept: list[Attempt] = []
    place_of: dict[str, int] = {}
    places_of_clash: dict[str, list[int]] = {}
    by_times = _ByTimes(unique_ids=unique_ids)
    begins_of_files: list[int] = []
    for number, attempt in enumerate(found, 1):
        reading.share(attempt)
        attempt.id = attempt.id or f"{number:06}"
        if len(begins_of_files) <= len(reading.files):
            begins_of_files.append(len(kept))
        first = place_of.setdefault(attempt.id, len(kept))
        if first == len(kept):
            kept.append(attempt)
            continue
        places = by_times.near(attempt) if attempt.id in places_of_clash else [first]
        copied = next(
            (place for place in places if _is_copy(kept[place], attempt, unique_ids=unique_ids)),
            None,
        )
        if copied is None:
            if attempt.id not in places_of_clash:
                places_of_clash[attempt.id] = [first]
                by_times.add(kept[first], first)
            places_of_clash[attempt.id].append(len(kept))
            by_times.add(attempt, len(kept))
            kept.append(attempt)
            continue
        reading.left_out["that came twice"] += 1
        if progress(attempt) > progress(kept[copied]):
            kept[copied] = attempt
            if attempt.id in places_of_clash:
                by_times.add(attempt, copied)
    for places in places_of_clash.values():
        reading.noted[SAME_ID] += len(places)
        by_file = grouped(places, lambda place: bisect_right(begins_of_files, place))
        for number, in_file in enumerate(by_file.values(), 1):
            _tell_apart([kept[place] for place in in_file], number)
    return kept


def _is_copy(one: Attempt, other: Attempt, *, unique_ids: bool) -> bool:
    """Return whether two records are of the same attempt; one of them may be older."""
    if unique_ids:
        is_same_job = one.kind == other.kind and one.matrix == other.matrix
        return is_same_job and abs(one.submitted_at - other.submitted_at) <= MAX_AGE_OF_COPY
    if one.attempt != other.attempt:
        return False
    pairs = (
        (one.submitted_at, other.submitted_at),
        (one.started_at, other.started_at),
        (one.finished_at, other.finished_at),
    )
    return all(
        at is None or other_at is None or abs(at - other_at) <= NOISE for at, other_at in pairs
    )


class _ByTimes:
    """Where attempts of one id are kept, by each of their times: copies are near in all of them.

    So a file whose rows share an id is not compared row by row.
    """

    def __init__(self, *, unique_ids: bool) -> None:
        self._unique_ids = unique_ids
        #: twice what is allowed: then rounding takes no copy farther than to the next span
        self._span = 2 * (MAX_AGE_OF_COPY if unique_ids else NOISE)
        self._places: dict[tuple[object, ...], list[int]] = defaultdict(list)

    def add(self, attempt: Attempt, place: int) -> None:
        """Add an attempt, or a later state of the one at this place."""
        scope = self._scope(attempt)
        for name, at in self._times(attempt):
            self._places[scope, name, None if at is None else at // self._span].append(place)

    def near(self, attempt: Attempt) -> list[int]:
        """Return the places, in order, among which those of its copies are."""
        scope = self._scope(attempt)
        fewest: list[list[int]] = []
        least = math.inf
        for name, at in self._times(attempt):
            if at is None:
                continue
            span = at // self._span
            keys = ((scope, name, near) for near in (None, span - 1, span, span + 1))
            lists = [self._places[key] for key in keys if key in self._places]
            count = sum(map(len, lists))
            if count < least:
                fewest, least = lists, count
        return sorted({place for places in fewest for place in places})

    def _scope(self, attempt: Attempt) -> tuple[object, ...]:
        if self._unique_ids:
            return attempt.id, attempt.kind, attempt.matrix
        return attempt.id, attempt.attempt

    def _times(self, attempt: Attempt) -> list[tuple[str, float | None]]:
        times: list[tuple[str, float | None]] = [("submitted", attempt.submitted_at)]
        if not self._unique_ids:
            times += [("started", attempt.started_at), ("finished", attempt.finished_at)]
        return times


def _tell_apart(attempts: Sequence[Attempt], number_of_file: int) -> None:
    """Give attempts of one id, all of one file, ids of their own.

    With numbers of their own they are tries at one job; else they may be any.
    """
    scope = attempts[0].id
    if number_of_file > 1:
        scope = f"{scope}@{number_of_file}"
    are_numbered = len({attempt.attempt for attempt in attempts}) == len(attempts) > 1
    for place, attempt in enumerate(attempts):
        attempt.id = scope
        if are_numbered:
            attempt.id = f"{scope}/{attempt.attempt}"
            attempt.job = attempt.job or scope
        elif place:
            attempt.id = f"{scope}~{place + 1}"


def _move_clocks_of_runners(attempts: Sequence[Attempt], reading: Reading) -> None:
    """Move what ran on a runner whose clock is off, so that its shortest wait is zero.

    How far it is off, is known only so. So these waits are not known, but run times are.
    """
    waits: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        waited = attempt.waited
        if attempt.runner and waited is not None:
            waits[attempt.platform][attempt.runner].append(waited)
    moved_by: dict[str, float] = {}
    for platform, waits_by_runner in waits.items():
        off = _behind(waits_by_runner)
        if not off and (suspect := _ahead(waits_by_runner)):
            beside = [one for one in attempts if one.platform == platform and one.runner]
            off = {} if _waited_as_long(beside, *suspect) else suspect
        if len(off) <= MAX_SHARE_OF_CLOCKS * len(waits_by_runner):
            moved_by |= off
    for attempt in attempts if moved_by else ():
        by = moved_by.get(attempt.runner)
        if by is None or attempt.started_at is None:
            continue
        attempt.started_at += by
        if attempt.finished_at is not None:
            attempt.finished_at += by
        attempt.eligible_at = None
        reading.noted[CLOCK_OFF] += 1


def _behind(waits_by_runner: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return by how much to move the runners on which most jobs start before they could."""
    return {
        runner: -min(waits)
        for runner, waits in waits_by_runner.items()
        if len(waits) >= MIN_JOBS_OF_CLOCK and 2 * sum(wait < -NOISE for wait in waits) > len(waits)
    }


def _ahead(waits_by_runner: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return by how much to move a runner whose every job waited longer than others ever do.

    Of jobs that all its runners take, one does not get those that waited longest.
    """
    shortest = {
        runner: min(waits)
        for runner, waits in waits_by_runner.items()
        if len(waits) >= MIN_JOBS_OF_CLOCK_AHEAD
    }
    if len(waits_by_runner) < MIN_RUNNERS_BESIDE or not shortest:
        return {}
    runner = max(shortest, key=shortest.__getitem__)
    others = sorted(
        wait for name, waits in waits_by_runner.items() if name != runner for wait in waits
    )
    if shortest[runner] <= max(NOISE, _longest(others)):
        return {}
    return {runner: -shortest[runner]}


def _waited_as_long(attempts: Sequence[Attempt], runner: str) -> bool:
    """Return whether other runners' jobs of about the same time waited as long as this one's.

    A runner that is only there for a rare long queue sees no other wait, and its clock is right.
    So it is, too, for all that is known, where no other job came at about the same time.
    """
    spans: set[float] = set()
    shortest = math.inf
    for one in attempts:
        if one.runner == runner and one.waited is not None:
            span = one.arrived_at // SPAN_BESIDE
            spans |= {span - 1, span, span + 1}
            shortest = min(shortest, one.waited)
    others = sorted(
        one.waited
        for one in attempts
        if one.runner != runner
        and one.waited is not None
        and one.arrived_at // SPAN_BESIDE in spans
    )
    return not others or shortest <= _longest(others)


def _longest(waits: Sequence[float]) -> float:
    """Return the longest of these waits, by length, but for rare ones."""
    return waits[int(SHARE_OF_OTHERS * (len(waits) - 1))]


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
    """Number the attempts of each job from 1, where the source does not, or begins with 0."""
    numbers = {attempt.attempt for attempt in attempts}
    if 0 not in numbers:
        return
    if 1 in numbers:
        numbers_of_job: dict[str, set[int]] = defaultdict(set)
        for attempt in attempts:
            numbers_of_job[attempt.job or attempt.id].add(attempt.attempt)
        for attempt in attempts:
            if {0, 1} <= numbers_of_job[attempt.job or attempt.id]:
                attempt.attempt += 1
    counts: Counter[str] = Counter()
    for one in attempts:
        if one.attempt == 0:
            counts[one.job or one.id] += 1
            one.attempt = counts[one.job or one.id]
