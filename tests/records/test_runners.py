"""Runners, counted for all at once, are those that counting one by one finds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.runners import ROUNDING, JobSpans, most_at_once, runners_of, successions
from tests.fixtures.attempts import attempt

#: arrival, seconds until the start and the end (None: there is none), runner, platform
DRAWN = st.tuples(
    st.integers(0, 20),
    st.integers(0, 5),
    st.integers(0, 10) | st.none(),
    st.sampled_from(["", "a", "b", "c"]),
    st.sampled_from(["linux", "mac"]),
    st.booleans(),
)


def attempts_of(drawn: Iterable[tuple[int, int, int | None, str, str, bool]]) -> list[Attempt]:
    """Return the attempts that are described."""
    found = []
    for number, (at, wait, lasts, runner, platform, has_started) in enumerate(drawn):
        start = float(at + wait) if has_started else None
        end = start + lasts if start is not None and lasts is not None else None
        found.append(attempt(number, at, start, end, runner=runner, platform=platform))
    return found


@given(st.lists(DRAWN, max_size=15), st.sampled_from([0.0, 1.0]))
def test_each_runner_is_its_own(drawn, resolution):
    """Its spans, platform and slots; what one ran counts for no other."""
    attempts = attempts_of(drawn)
    expected = []
    for name in sorted({one.runner for one in attempts if one.runner}):
        ran = [one for one in attempts if one.runner == name and one.started_at is not None]
        if not ran:
            continue
        first = min(ran, key=lambda one: one.started_at)
        ended = [one for one in ran if one.finished_at is not None]
        starts = np.array([one.started_at for one in ended])
        ends = np.array([one.finished_at for one in ended])
        slots = most_at_once(starts, ends, resolution + ROUNDING)
        gone_at = max((one.finished_at for one in ended), default=first.started_at)
        expected.append((name, first.platform, first.started_at, gone_at, slots, len(ran)))
    found = runners_of(AttemptColumns.of(attempts), resolution)
    assert [
        (one.runner, one.platform, one.joined_at, one.gone_at, one.slots, one.jobs) for one in found
    ] == sorted(expected, key=lambda one: (one[2], one[0]))


def test_a_start_follows_the_end_that_made_room():
    """Two slots: the third start follows the first end; a job that had not come waited for none."""
    jobs = JobSpans(
        eligible_at=np.array([0.0, 0.0, 1.0, 9.0]),
        started_at=np.array([0.0, 0.0, 6.0, 9.0]),
        ended_at=np.array([5.0, 8.0, 20.0, 20.0]),
    )
    assert successions(jobs, 2) == [1.0]
