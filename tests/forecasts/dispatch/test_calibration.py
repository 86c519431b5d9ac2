"""Intervals from past errors: every job is told one, and it holds as often as it says."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.forecasts.dispatch.forecast_intervals import LEVELS, PROVEN_FROM, ForecastCalibration
from tests.fixtures.examples import examples

NARROW = [100.0 + 10 * level for level in range(-4, 5)]
"""Quantiles around 100 s whose middle four fifths are 80 s apart."""
ORDINARY, URGENT = ("x", "x at level 0"), ("x", "x at level 1")


def tell(calibration, job, at, groups=ORDINARY):
    """Tell one job; return its calibrated quantiles."""
    return calibration.calibrate(groups, at, job, NARROW)


def story(errors, *, apart=130.0):
    """Tell jobs one after the other; return how each was off and what had been told for it."""
    calibration, told = ForecastCalibration(), []
    for number, error in enumerate(errors):
        at = number * apart
        told.append((error, tell(calibration, str(number), at)))
        calibration.dispatched(str(number), at + 100 + error)
    return told


def known(count: int = 50) -> ForecastCalibration:
    """Return what has seen as many errors on a platform, of which a tenth was outside each end."""
    calibration = ForecastCalibration()
    for number in range(count):
        tell(calibration, str(number), number * 130.0)
        calibration.dispatched(str(number), number * 130.0 + 100 + 11 * (number % 10) - 49)
    return calibration


@pytest.mark.parametrize(("scale", "shift"), [(0.45, 0.0), (0.4, 10.0), (0.15, 0.0)])
def test_intervals_hold_as_often_as_they_say(scale, shift) -> None:
    """Too narrow, one-sided or too wide forecasts: P10 - P90 holds 80 %, each end alone."""
    rng = random.Random(3)
    found = story([max(-99.0, shift + scale * 100 * rng.gauss(0, 1)) for _ in range(400)])
    waits = [(100 + error, told) for error, told in found]
    by_p10 = sum(wait <= told[0] for wait, told in waits) / len(waits)
    by_p90 = sum(wait <= told[-1] for wait, told in waits) / len(waits)
    assert 0.05 < by_p10 < 0.15
    assert 0.85 < by_p90 < 0.95
    assert 0.75 < by_p90 - by_p10 < 0.85


def test_the_first_job_is_told_the_rollouts_own_range_as_unproven() -> None:
    """No job is left without; what rests on no error says so, until ``PROVEN_FROM`` are known."""
    first = ForecastCalibration().range_of(ORDINARY, NARROW)
    assert (first.p10_time, first.p90_time) == (60.0, 140.0)
    assert (first.is_proven, first.errors, first.coverage) == (False, 0, None)
    assert not known(PROVEN_FROM - 1).range_of(ORDINARY, NARROW).is_proven
    proven = known(PROVEN_FROM).range_of(ORDINARY, NARROW)
    assert (proven.is_proven, proven.errors) == (True, PROVEN_FROM)
    assert proven.coverage == pytest.approx(0.8, abs=0.1)


def test_rollouts_that_are_all_alike_are_not_taken_for_sure() -> None:
    """While no run time is known they are: it was said to the second when a job starts."""
    alike = [100.0 + n / 10 for n in range(9)]
    calibration = ForecastCalibration()
    first = calibration.range_of(ORDINARY, alike)
    assert (first.p10_time, first.p90_time) == (pytest.approx(50.2), pytest.approx(200.8))
    made = calibration.calibrate(ORDINARY, 0.0, "a", alike)
    assert (made[0], made[4], made[-1]) == (first.p10_time, alike[4], first.p90_time)
    assert made == sorted(made)
    for number in range(PROVEN_FROM):
        calibration.calibrate(ORDINARY, 0.0, str(number), alike)
        calibration.dispatched(str(number), 100.4)
    sure = calibration.range_of(ORDINARY, alike)
    assert sure.p90_time - sure.p10_time < 20.0


def test_asking_is_no_forecast() -> None:
    """A user who looks every minute does not change what others are told."""
    calibration = known()
    before = msgspec.json.encode(calibration.dump())
    calibration.range_of(URGENT, NARROW)
    assert msgspec.json.encode(calibration.dump()) == before


def test_each_platform_learns_from_its_own() -> None:
    """The errors of another platform would be a false interval."""
    calibration = known()
    elsewhere = calibration.range_of(("y", "y at level 0"), NARROW)
    assert (elsewhere.p10_time, elsewhere.p90_time, elsewhere.errors) == (60.0, 140.0, 0)


def test_urgent_jobs_have_errors_of_their_own() -> None:
    """Late urgent jobs widen the ranges of their level more than those of the others."""
    calibration = known()
    before = calibration.range_of(URGENT, NARROW).p90_time
    for number in range(PROVEN_FROM):
        at = 9000.0 + 600 * number
        tell(calibration, f"urgent-{number}", at, URGENT)
        late = 80 if number % 2 else 0
        calibration.dispatched(f"urgent-{number}", at + 100 + late)
    urgent, ordinary = (calibration.range_of(one, NARROW) for one in (URGENT, ORDINARY))
    assert before < ordinary.p90_time < urgent.p90_time
    assert urgent.errors == PROVEN_FROM
    assert urgent.coverage is not None
    assert urgent.coverage < 0.9


def test_waits_that_go_on_count() -> None:
    """Jobs that wait longer than their P90 make the next interval later, before they end."""

    def p90(overdue: int) -> float:
        calibration = known(30)
        for number in range(overdue):
            tell(calibration, f"late-{number}", 4000.0)
        return tell(calibration, "next", 5000.0)[-1]

    assert p90(0) < p90(3) < p90(15)


def test_a_late_job_is_one_error() -> None:
    """It is counted when it outlasts its P90, and not again when it is dispatched."""
    calibration = ForecastCalibration()
    tell(calibration, "late", 0.0)
    tell(calibration, "next", 1000.0)
    calibration.dispatched("late", 1100.0)
    assert calibration.range_of(ORDINARY, NARROW).errors == 1


def test_jobs_that_wait_together_count_as_few() -> None:
    """A hundred that were all late move a scale as few do one by one: nearly one error."""

    def p90(jobs: int) -> float:
        calibration = known()
        for number in range(jobs):
            tell(calibration, f"late-{number}", 9000.0)
        tell(calibration, "next", 9500.0)
        return calibration.range_of(ORDINARY, NARROW).p90_time

    assert p90(0) < p90(1) < p90(100) < p90(0) + 12 * (p90(1) - p90(0))


def test_a_job_that_is_gone_is_forgotten() -> None:
    """A cancelled job is no long wait."""
    calibration = ForecastCalibration()
    for number in range(50):
        tell(calibration, str(number), number * 130.0)
        calibration.drop(str(number))
        calibration.dispatched(str(number), number * 130.0 + 100)
    assert calibration.range_of(ORDINARY, NARROW).errors == 0


def test_another_one_continues_where_one_ended() -> None:
    """What passes through JSON is all that there is; what cannot be read is nothing."""
    first, second = known(), ForecastCalibration()
    tell(first, "open", 7000.0)
    second.load(msgspec.json.decode(msgspec.json.encode(first.dump())))
    for one in (first, second):
        one.dispatched("open", 7300.0)
    assert tell(first, "next", 7400.0) == tell(second, "next", 7400.0)
    assert tell(first, "overdue", 7600.0) == tell(second, "overdue", 7600.0)
    for unread in ({"x": {"errors": "many"}}, {"groups": {"x": {"errors": "many"}}}):
        second = ForecastCalibration()
        second.load(unread)
        assert second.range_of(ORDINARY, NARROW).errors == 0


@examples(25)
@given(st.lists(st.floats(-100, 1e5), min_size=PROVEN_FROM + 1, max_size=60))
def test_quantiles_are_ordered_waits(errors) -> None:
    """Whatever happened: nine waits that do not decrease, 0 or more."""
    for _, told in story(errors, apart=2e5):
        assert len(told) == len(LEVELS)
        assert list(told) == sorted(told)
        assert all(wait >= 0 for wait in told)
