"""Intervals from past errors: they hold as often as they say, or are not told."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.forecasts.dispatch.calibration import LEAST, LEVELS, Calibration

NARROW = [100.0 + 10 * level for level in range(-4, 5)]
"""Quantiles around 100 s whose middle four fifths are 80 s apart."""


def story(errors, *, apart=130.0):
    """Tell jobs one after the other; return how each was off and what had been told for it."""
    calibration, told = Calibration(), []
    for number, error in enumerate(errors):
        at = number * apart
        told.append((error, calibration.told(str(number), "x", at, NARROW)))
        calibration.dispatched(str(number), at + 100 + error)
    return told


@pytest.mark.parametrize(("scale", "shift"), [(0.45, 0.0), (0.4, 10.0)])
def test_intervals_hold_as_often_as_they_say(scale, shift) -> None:
    """Too narrow or one-sided forecasts: P10 - P90 holds 80 %, and each end alone."""
    rng = random.Random(3)
    found = story([max(-99.0, shift + scale * 100 * rng.gauss(0, 1)) for _ in range(400)])
    known = [(100 + error, told) for error, told in found if told]
    assert len(known) > 350
    by_p10 = sum(wait <= told[0] for wait, told in known) / len(known)
    by_p90 = sum(wait <= told[-1] for wait, told in known) / len(known)
    assert 0.07 < by_p10 < 0.13
    assert 0.87 < by_p90 < 0.93


def test_too_wide_intervals_are_narrowed_with_care() -> None:
    """By about half: they hold more often than they say, rather than less often."""
    rng = random.Random(3)
    found = [one for one in story([5 * rng.gauss(0, 1) for _ in range(200)]) if one[1]]
    widths = [told[-1] - told[0] for _, told in found]
    assert 40 < sum(widths) / len(widths) < 60 < NARROW[-1] - NARROW[0]
    assert all(told[0] <= 100 + error <= told[-1] for error, told in found)


def test_there_is_no_interval_before_enough_is_known() -> None:
    """Not before the twentieth error; and none of jobs that waited together, however many."""
    found = story([5.0] * (LEAST + 1))
    assert [bool(told) for _, told in found] == [False] * LEAST + [True]
    together = Calibration()
    for number in range(200):
        assert together.told(str(number), "x", number * 0.1, NARROW) == ()
    for number in range(200):
        together.dispatched(str(number), 100 + number * 0.1)
    assert together.told("one more", "x", 200.0, NARROW) == ()


def test_each_platform_learns_from_its_own() -> None:
    """The errors of another platform would be a false interval."""
    calibration = Calibration()
    for number in range(50):
        calibration.told(str(number), "x", number * 130.0, NARROW)
        calibration.dispatched(str(number), number * 130.0 + 100)
    assert calibration.told("a", "x", 7000.0, NARROW)
    assert calibration.told("b", "y", 7000.0, NARROW) == ()


def test_waits_that_go_on_count() -> None:
    """Jobs that wait far longer than was told make the next interval later, before they end."""

    def p90(overdue: int) -> float:
        calibration = Calibration()
        for number in range(30):
            calibration.told(str(number), "x", number * 130.0, NARROW)
            calibration.dispatched(str(number), number * 130.0 + 100 + number % 7)
        for number in range(overdue):
            calibration.told(f"late-{number}", "x", 4000.0, NARROW)
        return calibration.told("next", "x", 5000.0, NARROW)[-1]

    assert p90(0) < 125 < 500 < p90(15)


def test_a_job_that_is_gone_is_forgotten() -> None:
    """A cancelled job is no long wait."""
    calibration = Calibration()
    for number in range(50):
        calibration.told(str(number), "x", number * 130.0, NARROW)
        calibration.keep({"b"}.__contains__)
        calibration.dispatched(str(number), number * 130.0 + 100)
    assert calibration.told("a", "x", 7000.0, NARROW) == ()


@settings(max_examples=25)
@given(st.lists(st.floats(-100, 1e5), min_size=LEAST + 1, max_size=60))
def test_quantiles_are_ordered_waits(errors) -> None:
    """Whatever happened: nine waits that do not decrease, 0 or more."""
    for _, told in story(errors, apart=2e5):
        assert len(told) in (0, len(LEVELS))
        assert list(told) == sorted(told)
        assert all(wait >= 0 for wait in told)
