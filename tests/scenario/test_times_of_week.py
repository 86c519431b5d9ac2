"""Times of the week: what the forms mean, and where a period begins and ends."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise

import pytest

from farm.scenario.times_of_week import (
    DAYS,
    Period,
    format_time_of_week,
    minutes_of_week,
    parse_offset,
    parse_time_of_week,
)

HOUR, DAY, WEEK = 3600.0, 86400.0, 604800.0


def spans(text: str, offset: int = 0) -> str:
    """Return the minutes of a text as spans of the week, from Monday 00:00 on."""
    minutes = minutes_of_week(text, offset)
    edges = [m for m in range(7 * 1440) if (m in minutes) != (m - 1 in minutes)]
    if len(edges) % 2:
        edges.append(7 * 1440)
    names = [f"{DAYS[m // 1440 % 7]} {m // 60 % 24:02}:{m % 60:02}" for m in edges]
    pairs = zip(names[::2], names[1::2], strict=True)
    return ", ".join(f"{start}-{end}" for start, end in pairs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tue 08:00-18:00", "tue 08:00-tue 18:00"),
        ("tue,thu 8:00-18:30", "tue 08:00-tue 18:30, thu 08:00-thu 18:30"),
        ("Sat-Sun", "sat 00:00-mon 00:00"),
        ("fri-mon", "mon 00:00-tue 00:00, fri 00:00-mon 00:00"),
        ("wed 22:00-06:00", "wed 22:00-thu 06:00"),
        ("sun 22:00 - 06:00", "mon 00:00-mon 06:00, sun 22:00-mon 00:00"),
        ("wed 20:00-24:00", "wed 20:00-thu 00:00"),
        ("fri 18:00 - mon 08:00", "mon 00:00-mon 08:00, fri 18:00-mon 00:00"),
        ("tue 08:00 - wed 09:00", "tue 08:00-wed 09:00"),
        ("* 8-17 * * tue", "tue 08:00-tue 18:00"),
        ("* 8-17 * * 2,4", "tue 08:00-tue 18:00, thu 08:00-thu 18:00"),
        ("* * * * 6-7", "sat 00:00-mon 00:00"),
        ("* * * * sat,SUN", "sat 00:00-mon 00:00"),
        ("* * * * fri-mon", "mon 00:00-tue 00:00, fri 00:00-mon 00:00"),
        ("* * * * 0", "sun 00:00-mon 00:00"),
        ("0-29 12 * * wed", "wed 12:00-wed 12:30"),
        ("*/30 12 * * wed", "wed 12:00-wed 12:01, wed 12:30-wed 12:31"),
        ("* * * * *", "mon 00:00-mon 00:00"),
    ],
)
def test_forms(text: str, expected: str) -> None:
    """Protects what people and cron write: spans over midnight and the weekend, lists, names."""
    assert spans(text) == expected


def test_another_clock() -> None:
    """Protects time zones: eight in the morning of a clock ahead comes earlier."""
    assert spans("tue 08:00-18:00", parse_offset("+01:00")) == "tue 07:00-tue 17:00"
    assert spans("tue 20:00-24:00", parse_offset("-8")) == "wed 04:00-wed 08:00"
    assert parse_offset("UTC+05:30") == 330


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ""),
        ("weekdays", ""),
        ("mon-fri 8-18", ""),
        ("08:00-08:00", "it ends where it begins"),
        ("08:00-24:01", "24:01 is not from 00:00 to 24:00"),
        ("* 8-24 * * *", "24 is not from 0 to 23"),
        ("* 17-8 * * *", "17-8 goes backwards"),
        ("* * * * mo", "mo is not from 0 to 7"),
        ("*/0 * * * *", "0 is not from 1 to 59"),
        ("* * 1 * *", "no dates"),
        ("* * * may *", "no dates"),
        ("* * 9-17 * * 1-5", ""),
        ("@daily", ""),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    """Protects users: one message with the reason and the forms that are allowed."""
    with pytest.raises(ValueError, match=r"^found .* allowed: days, times or both") as refused:
        minutes_of_week(text)
    assert reason in str(refused.value)


def test_the_time_at_farm_time_0() -> None:
    """Protects the scenario's key, as written and as read."""
    assert parse_time_of_week("Tue 01:30") == DAY + 1.5 * HOUR
    assert parse_time_of_week("mon") == 0.0
    for text in ("mon 00:00", "wed 14:23", "sun 23:59:59"):
        assert format_time_of_week(parse_time_of_week(text)) == text
    dated = parse_time_of_week("2026-03-03T14:30")
    assert dated % WEEK == DAY + 14.5 * HOUR
    assert format_time_of_week(dated) == "2026-03-03 14:30"
    for wrong in ("8h", 3, "wed 24:00", "wednesday", "wed 12:60", "2026-02-30 10:00", "1970-01-05"):
        with pytest.raises(ValueError, match="a weekday and a time of day"):
            parse_time_of_week(wrong)


@pytest.mark.parametrize("starts", ["mon 00:00", "wed 14:23:07", "sun 23:59"])
@pytest.mark.parametrize("text", ["mon-fri 08:00-18:00", "22:00-06:00", "* * * * *", "sun"])
def test_nothing_changes_between_the_stated_instants(starts: str, text: str) -> None:
    """Protects plans that are skipped: a period changes at those instants, and at no other."""
    offset = parse_time_of_week(starts)
    period = Period(minutes_of_week(text), start=1000.0, end=2 * WEEK + 5000.0)
    changes, at = [0.0], 0.0
    while math.isfinite(following := period.changes_after(at, offset)):
        assert following > at
        changes.append(following)
        at = following
    for at in (97.0 * n for n in range(20_000)):
        last = changes[bisect_right(changes, at) - 1]
        assert period.holds_at(at, offset) == period.holds_at(last, offset)
    # they are edges, but for a beginning or end outside the minutes
    kept = [period.holds_at(at, offset) for at in changes[1:-1]]
    assert sum(a == b for a, b in pairwise(kept)) <= 1
