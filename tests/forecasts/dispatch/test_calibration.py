"""Intervals from past errors: they hold as often as they say, or are not told."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.forecasts.dispatch.forecast_intervals import LEAST, LEVELS, ForecastCalibration
from tests.fixtures.examples import examples

NARROW = [100.0 + 10 * level for level in range(-4, 5)]
"""Quantiles around 100 s whose middle four fifths are 80 s apart."""


def tell(calibration, job, at, platform="x"):
    """Tell one job; return its calibrated quantiles."""
    (told,) = calibration.calibrate(platform, at, [(job, NARROW)])
    return told


def story(errors, *, apart=130.0):
    """Tell jobs one after the other; return how each was off and what had been told for it."""
    calibration, told = ForecastCalibration(), []
    for number, error in enumerate(errors):
        at = number * apart
        told.append((error, tell(calibration, str(number), at)))
        calibration.dispatched(str(number), at + 100 + error)
    return told


def held(found):
    """Return how often P10 - P90 of those that have one held."""
    known = [(100 + error, told) for error, told in found if told]
    return sum(told[0] <= wait <= told[-1] for wait, told in known) / len(known)


@pytest.mark.parametrize(("scale", "shift"), [(0.45, 0.0), (0.4, 10.0), (0.05, 0.0)])
def test_intervals_hold_as_often_as_they_say(scale, shift) -> None:
    """Too narrow, one-sided or far too wide forecasts: P10 - P90 holds 80 %, each end alone."""
    rng = random.Random(3)
    found = story([max(-99.0, shift + scale * 100 * rng.gauss(0, 1)) for _ in range(400)])
    known = [(100 + error, told) for error, told in found if told]
    assert len(known) > 350
    by_p10 = sum(wait <= told[0] for wait, told in known) / len(known)
    by_p90 = sum(wait <= told[-1] for wait, told in known) / len(known)
    assert 0.07 < by_p10 < 0.13
    assert 0.87 < by_p90 < 0.93
    assert 0.76 < held(found) < 0.84


def test_intervals_hold_while_errors_change() -> None:
    """Errors that turn from small to large and back are followed."""
    rng = random.Random(4)
    turning = [rng.gauss(0, 5 if number // 40 % 2 else 40) for number in range(240)]
    assert 0.75 < held(story(turning, apart=1000.0)) < 0.85


def test_there_is_no_interval_before_enough_is_known() -> None:
    """Not before the twentieth error; and none of jobs that waited together, however many."""
    found = story([5.0] * (LEAST + 1))
    assert [bool(told) for _, told in found] == [False] * LEAST + [True]
    together = ForecastCalibration()
    for number in range(200):
        assert tell(together, str(number), number * 0.1) == ()
    for number in range(200):
        together.dispatched(str(number), 100 + number * 0.1)
    assert tell(together, "one more", 200.0) == ()


def test_a_wait_far_beyond_all_known_ones_has_no_interval() -> None:
    """A queue that grows for hours: what is known of short waits says nothing of long ones."""
    for times, tells in ((1.4, True), (1.6, False)):
        (told,) = known().calibrate("x", 7000.0, [("long", [times * wait for wait in NARROW])])
        assert bool(told) == tells


def known(count: int = 50) -> ForecastCalibration:
    """Return what has seen as many errors on a platform, all between 0 and 6 s."""
    calibration = ForecastCalibration()
    for number in range(count):
        tell(calibration, str(number), number * 130.0)
        calibration.dispatched(str(number), number * 130.0 + 100 + number % 7)
    return calibration


def test_each_platform_learns_from_its_own() -> None:
    """The errors of another platform would be a false interval."""
    calibration = known()
    assert tell(calibration, "a", 7000.0)
    assert tell(calibration, "b", 7000.0, platform="y") == ()


def test_waits_that_go_on_count() -> None:
    """Jobs that wait far longer than was told make the next interval later, before they end."""

    def p90(overdue: int) -> float:
        calibration = known(30)
        for number in range(overdue):
            tell(calibration, f"late-{number}", 4000.0)
        return tell(calibration, "next", 5000.0)[-1]

    assert p90(0) < 125 < 500 < p90(15)


def test_jobs_that_wait_together_count_as_few() -> None:
    """A hundred that were all late move a level as a dozen do one by one: nearly one error."""

    def shift(jobs: int) -> float:
        calibration = known()
        (its,) = calibration.platforms.values()
        before = its.shifts[-1]
        calibration.calibrate("x", 9000.0, [(f"late-{number}", NARROW) for number in range(jobs)])
        for number in range(jobs):
            calibration.dispatched(f"late-{number}", 9500.0)
        return its.shifts[-1] - before

    assert 0 < shift(1) < shift(100) < 15 * shift(1)


def test_what_a_growing_queue_has_in_common_is_no_reason_to_go_on() -> None:
    """Jobs told before the first of them ended all err alike; then no more than that is added.

    Levels that moved after each error had gone far beyond all that was ever seen by then.
    """
    calibration, waits = known(30), [100.0 * wait for wait in NARROW]
    for number in range(60):
        calibration.calibrate("x", 5000.0 + 100 * number, [(f"late-{number}", waits)])
    for number in range(60):
        calibration.dispatched(f"late-{number}", 15_000.0 + 125 * number)
    (told,) = calibration.calibrate("x", 23_000.0, [("next", waits)])
    # of ninety errors the last sixty were 0 to 1,475 s
    assert told[0] < 10_200 < told[4] < 10_900 < told[-1] < 11_600


def test_a_job_that_is_gone_is_forgotten() -> None:
    """A cancelled job is no long wait."""
    calibration = ForecastCalibration()
    for number in range(50):
        tell(calibration, str(number), number * 130.0)
        calibration.drop(str(number))
        calibration.dispatched(str(number), number * 130.0 + 100)
    assert tell(calibration, "a", 7000.0) == ()


def test_another_one_continues_where_one_ended() -> None:
    """What passes through JSON is all that there is; what cannot be read is nothing."""
    first, second = known(), ForecastCalibration()
    tell(first, "open", 7000.0)
    second.load(msgspec.json.decode(msgspec.json.encode(first.platforms)))
    for one in (first, second):
        one.dispatched("open", 7300.0)
    assert tell(first, "next", 7400.0) == tell(second, "next", 7400.0) != ()
    second = ForecastCalibration()
    second.load({"x": {"errors": "many"}})
    assert tell(second, "next", 7400.0) == ()


@examples(25)
@given(st.lists(st.floats(-100, 1e5), min_size=LEAST + 1, max_size=60))
def test_quantiles_are_ordered_waits(errors) -> None:
    """Whatever happened: nine waits that do not decrease, 0 or more."""
    for _, told in story(errors, apart=2e5):
        assert len(told) in (0, len(LEVELS))
        assert list(told) == sorted(told)
        assert all(wait >= 0 for wait in told)
