"""The worst hour of the week is that of the farm's own clock, also where that clock is changed."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from farm.records.attempt_columns import AttemptColumns
from farm_twin.diagnosis.waits import worst_hour
from tests.fixtures.attempts import MONDAY, attempt

#: in the hour of UTC in which Newfoundland's clocks went back, a minute after midnight
CHANGED_WITHIN_AN_HOUR = 1_289_098_860.0 - 1200


@pytest.mark.parametrize(
    ("zone", "begins"),
    [
        (UTC, MONDAY),
        (ZoneInfo("Asia/Kolkata"), MONDAY),
        (ZoneInfo("Europe/Berlin"), 1_792_886_400.0),
        (ZoneInfo("America/St_Johns"), CHANGED_WITHIN_AN_HOUR),
    ],
)
def test_hours_are_those_of_the_clock(zone: tzinfo, begins: float):
    """As each job's own instant says, also in the hour in which a clock is changed."""
    draw = np.random.default_rng(1)
    waits = draw.exponential(600.0, 400).round(3).tolist()
    starts = (begins + draw.integers(0, 36_000, 400) / 10).tolist()
    by_hour: dict[str, list[float]] = defaultdict(list)
    for at, wait in zip(starts, waits, strict=True):
        by_hour[datetime.fromtimestamp(at, zone).strftime("%a %H h")].append(at + wait - at)
    expected = max((float(np.quantile(some, 0.95)), hour) for hour, some in by_hour.items())
    jobs = [
        attempt(number, at, at + wait)
        for number, (at, wait) in enumerate(zip(starts, waits, strict=True))
    ]
    hour, wait = worst_hour(AttemptColumns.of(jobs), zone)
    assert (wait, hour) == expected


def test_a_trace_without_dates_has_its_own_hours():
    """There is no week in it: an hour is a number."""
    jobs = [attempt(n, 3600.0 * (n // 10), 3600.0 * (n // 10) + n) for n in range(30)]
    assert worst_hour(AttemptColumns.of(jobs), UTC) == ("hour 2", pytest.approx(28.55))


def test_an_hour_of_few_jobs_is_not_the_worst():
    """One unlucky job at night says nothing of nights."""
    jobs = [attempt(n, MONDAY + n, MONDAY + n + 10.0) for n in range(100)]
    jobs.append(attempt(100, MONDAY + 7200.0, MONDAY + 9999.0))
    hour, wait = worst_hour(AttemptColumns.of(jobs), UTC)
    assert (hour, wait) == ("Mon 00 h", 10.0)
