"""A forecast in words: what a user reads is exactly this, in every command."""

from __future__ import annotations

import pytest

from farm.forecasts.forecast_words import (
    StartForecast,
    at_once_in_words,
    is_open_ended,
    range_in_words,
    running_in_words,
    sentence_of,
)

PROVEN = StartForecast(
    start=600.0,
    start_low=490.0,
    start_high=700.0,
    run_time=480.0,
    run_time_low=370.0,
    run_time_high=640.0,
    checked=50,
    in_time=41,
    is_proven=True,
)


def forecast(**fields: object) -> StartForecast:
    """Return the proven forecast with other fields."""
    return StartForecast(
        **{name: getattr(PROVEN, name) for name in PROVEN.__struct_fields__} | fields
    )


def test_one_sentence_says_when_and_how_sure_and_why():
    """The oldest question of a user: a range, how often such ranges held, the end, the reason."""
    why = "all 6 builders that could run it are busy, 12 jobs are ahead"
    assert sentence_of("b1", PROVEN, why, "14:50") == (
        "b1 starts in 8-12 min (of the last 50 jobs so told, 8 of 10 started in time), "
        f"runs 6-11 min, done by 14:50: {why}"
    )
    assert sentence_of("b1", PROVEN).endswith("runs 6-11 min, done within 22 min")


@pytest.mark.parametrize(
    ("checked", "in_time", "is_proven", "words"),
    [
        (0, 0, False, "unproven: no job so told has started yet"),
        (1, 1, False, "unproven: the last job so told started in time"),
        (1, 0, False, "unproven: the last job so told did not start in time"),
        (7, 5, False, "unproven: of the last 7 jobs so told, 5 started in time"),
        (30, 30, True, "of the last 30 jobs so told, all started in time"),
        (30, 0, True, "of the last 30 jobs so told, none started in time"),
        (20, 19, True, "of the last 20 jobs so told, 9 of 10 started in time"),
        (20, 1, True, "of the last 20 jobs so told, 1 of 10 started in time"),
        (100, 78, True, "of the last 100 jobs so told, 8 of 10 started in time"),
    ],
)
def test_how_sure_a_range_is(checked: int, in_time: int, is_proven: bool, words: str):
    """The first jobs of a farm must not take a range for proven that nothing was held against."""
    made = forecast(checked=checked, in_time=in_time, is_proven=is_proven)
    assert f"starts in 8-12 min ({words})" in sentence_of("b1", made)


def test_a_job_that_others_may_always_overtake():
    """Under shortest job first a long job may starve: no end of its range would be true."""
    made = forecast(is_open=True)
    assert sentence_of("b1", made).startswith(
        "b1 starts in about 10 min, but may wait very long (of the last 50 jobs so told"
    )
    assert "done" not in sentence_of("b1", made)
    assert is_open_ended(600.0, 7000.0)
    assert not is_open_ended(600.0, 5000.0)
    assert not is_open_ended(10.0, 900.0)


def test_a_declared_time_that_was_not_believed():
    """A user who said 4 minutes and reads 1m30s thinks that the command did not listen."""
    made = forecast(declared=240.0, kind_time=90.0)
    said = "you said 4 min; this kind takes about 1m30s"
    assert sentence_of("b1", made, "it is the next").endswith(f": it is the next; {said}")
    assert at_once_in_words("b1", made).endswith(f"; {said}")


def test_without_ranges_what_is_known_is_told():
    """No builder that could run it, too few runs of its kind, a job that starts at once or runs."""
    nothing = StartForecast(run_time=90.0)
    assert (
        sentence_of("b1", nothing, "no pool has it") == "b1 waits, runs about 1m30s: no pool has it"
    )
    soon = forecast(start=0.1, start_low=0.0, start_high=0.5)
    assert sentence_of("b1", soon).startswith("b1 starts at once (of the last 50 jobs")
    at_once = StartForecast(start=0.0, run_time=240.0)
    assert at_once_in_words("b1", at_once, "14:50") == (
        "b1 starts at once, runs about 4 min, done by 14:50"
    )
    assert running_in_words("b1", 60.0, 200.0, 110.0, 300.0, "14:50") == (
        "b1 has run for 1 min, done in 1-5 min (by 14:50)"
    )
    assert running_in_words("b1", 90.0, 200.0, None, None) == (
        "b1 has run for 1m30s, done in about 3m20s"
    )


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (12.2, 40.1, "12-41 s"),
        (0.0, 175.0, "within 3 min"),
        (40.0, 170.0, "40 s to 3 min"),
        (490.0, 700.0, "8-12 min"),
        (600.0, 601.0, "about 10 min"),
        (570.0, 590.0, "9-10 min"),
        (2400.0, 9000.0, "40 min to 2.5 h"),
        (5500.0, 9000.0, "1.5-2.5 h"),
        (130_000.0, 260_000.0, "1.5-3.1 days"),
        (1e8, 1.5e8, "1,157.4-1,736.2 days"),
    ],
)
def test_a_range_is_said_in_one_unit_and_never_narrower(low: float, high: float, words: str):
    """Rounding must not make a promise that the forecast did not make."""
    assert range_in_words(low, high) == words
