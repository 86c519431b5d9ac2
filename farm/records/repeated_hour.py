"""The hour that comes twice: local times of the night in which a clock is set back.

Without a zone, half past two may then be either of two instants, an hour apart. Most can be
placed: jobs start after they were submitted, and end after they started; files are in order of
submission; and run times and waits are about as long as those before. The others are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from farm.records.attempt import Attempt

if TYPE_CHECKING:
    from farm.records.reading import Reading

PLACED = "in the hour that came twice, as the clock was set back: placed by their order"
LEFT_OUT = "in the hour that came twice, as the clock was set back"
"""What is noted of attempts that could be placed, and why the others are left out."""
MIN_SHARE_IN_ORDER = 0.95
"""Share of the neighbours that are in order of submission, from which a file is."""
MIN_DIFFERENCE = 600.0
"""Seconds by which the run time and wait of one choice must be nearer to the usual ones."""
MIN_STEP_BACK = 3600.0
"""Seconds by which a submission is earlier than those before it where another file begins."""
TOLERANCE = 2.0
"""Seconds by which clocks may disagree."""


class _Times(NamedTuple):
    """The instants of an attempt, each of which may be in the repeated hour."""

    submitted_at: float
    eligible_at: float | None
    started_at: float | None
    finished_at: float | None

    @property
    def are_in_order(self) -> bool:
        known = [at for at in self if at is not None]
        return all(later >= earlier - TOLERANCE for earlier, later in pairwise(known))

    @property
    def wait(self) -> float:
        arrived_at = self.submitted_at if self.eligible_at is None else self.eligible_at
        return 0.0 if self.started_at is None else self.started_at - arrived_at

    def distance(self, run_time: float, wait: float) -> float:
        """Return how far run time and wait are from the usual ones, seconds."""
        distance = abs(self.wait - wait)
        if self.started_at is not None and self.finished_at is not None:
            distance += abs(self.finished_at - self.started_at - run_time)
        return distance


def placed_in_repeated_hours(attempts: list[Attempt], reading: Reading) -> list[Attempt]:
    """Return the attempts with the instants of repeated hours placed, in the order of the files.

    What cannot be placed is left out, and counted in ``reading``.
    """
    later_at = reading.repeated
    if not later_at:
        return attempts
    sound = [attempt.ran for attempt in attempts if not _is_in_it(attempt, later_at)]
    run_times = [time for time in sound if time is not None]
    usual_run_time = median(run_times) if run_times else 0.0

    is_oldest_first = _share_in_order(attempts, later_at) >= MIN_SHARE_IN_ORDER
    is_newest_first = _share_in_order(attempts[::-1], later_at) >= MIN_SHARE_IN_ORDER
    has_order = is_oldest_first or is_newest_first
    by_age = attempts[::-1] if is_newest_first and not is_oldest_first else attempts

    unplaced: set[int] = set()
    last_submitted_at = -float("inf")
    last_wait = 0.0
    for attempt in by_age:
        times = _times_of(attempt)
        is_in_it = _is_in_it(attempt, later_at)
        if not is_in_it and times.submitted_at < last_submitted_at - MIN_STEP_BACK:
            # another file of the same time begins
            last_submitted_at = -float("inf")
        if is_in_it:
            earliest = last_submitted_at if has_order else -float("inf")
            choice = _choice(times, later_at, earliest, usual_run_time, last_wait)
            if choice is None:
                unplaced.add(id(attempt))
                continue
            times = choice
            attempt.submitted_at, attempt.eligible_at, attempt.started_at, attempt.finished_at = (
                times
            )
            reading.noted[PLACED] += 1
        last_submitted_at = max(last_submitted_at, times.submitted_at)
        last_wait = max(0.0, times.wait)
    if unplaced:
        reading.left_out[LEFT_OUT] += len(unplaced)
    return [attempt for attempt in attempts if id(attempt) not in unplaced]


def _choice(
    times: _Times,
    later_at: Mapping[float, float],
    earliest: float,
    usual_run_time: float,
    last_wait: float,
) -> _Times | None:
    """Return the instants that are meant; None: that cannot be told.

    Args:
        times: with the earlier one of both instants.
        later_at: the later one.
        earliest: the submission of the job before.
        usual_run_time: of the other jobs, seconds.
        last_wait: of the job before, seconds.
    """
    choices = [
        choice
        for choice in _readings(times, later_at)
        if choice.are_in_order and choice.submitted_at >= earliest - TOLERANCE
    ]
    if not choices:
        return None
    if earliest > -float("inf"):
        first = min(choice.submitted_at for choice in choices)
        choices = [choice for choice in choices if choice.submitted_at == first]
    choices.sort(key=lambda choice: choice.distance(usual_run_time, last_wait))
    distances = [choice.distance(usual_run_time, last_wait) for choice in choices[:2]]
    if len(distances) > 1 and distances[1] - distances[0] < MIN_DIFFERENCE:
        return None
    return choices[0]


def _readings(times: _Times, later_at: Mapping[float, float]) -> Iterator[_Times]:
    """Yield the instants with each of them that was repeated read as the earlier or later one."""
    repeated = sorted({at for at in times if at is not None and at in later_at})
    for choice in product((False, True), repeat=len(repeated)):
        moved = {
            at: later_at[at] for at, is_later in zip(repeated, choice, strict=True) if is_later
        }
        eligible_at, started_at, finished_at = (
            at if at is None else moved.get(at, at) for at in times[1:]
        )
        submitted_at = moved.get(times.submitted_at, times.submitted_at)
        yield _Times(submitted_at, eligible_at, started_at, finished_at)


def _share_in_order(attempts: Sequence[Attempt], later_at: Mapping[float, float]) -> float:
    """Return the share of neighbours, outside repeated hours, that are in order of submission."""
    known = [attempt.submitted_at for attempt in attempts if attempt.submitted_at not in later_at]
    pairs = len(known) - 1
    if pairs < 1:
        return 0.0
    return sum(later >= earlier for earlier, later in pairwise(known)) / pairs


def _is_in_it(attempt: Attempt, later_at: Mapping[float, float]) -> bool:
    return any(at in later_at for at in _times_of(attempt) if at is not None)


def _times_of(attempt: Attempt) -> _Times:
    return _Times(
        attempt.submitted_at, attempt.eligible_at, attempt.started_at, attempt.finished_at
    )
