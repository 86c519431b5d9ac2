"""The overload risk formula (figure 4.1 of the thesis), misprints corrected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.contention.laws import THESIS_TABLE, LinearSlowdown, SlowdownTable
from farm_studies.thesis.evaluation import expected_slowdown

TABLE = {1: 1.000, 2: 1.016, 3: 1.045, 4: 1.084, 5: 1.131, 6: 1.185, 7: 1.244, 8: 1.307, 16: 1.891}


@pytest.mark.parametrize(("slots", "expected"), TABLE.items())
def test_values_for_a_fifth_of_heavy_jobs(slots: int, expected: float) -> None:
    """Protects the corrected formula by its known values."""
    assert round(expected_slowdown(slots, 0.2, THESIS_TABLE.slowdown), 3) == expected


def test_two_slots_by_hand() -> None:
    """Protects both corrections: x0·0.64 + x1·0.32 + x2·0.04 with any table."""
    law = SlowdownTable((1.0, 2.0, 5.0))
    assert expected_slowdown(2, 0.2, law.slowdown) == pytest.approx(0.64 + 0.64 + 0.2)


@given(st.integers(1, 60), st.floats(0, 1))
def test_probabilities_are_a_distribution_with_the_right_mean(slots: int, fraction: float) -> None:
    """Protects eq. 4.2: it sums to one and has mean n·p."""
    assert expected_slowdown(slots, fraction, lambda _: 1.0) == pytest.approx(1)
    mean = expected_slowdown(slots, fraction, float)
    assert mean == pytest.approx(slots * fraction, abs=1e-9)


@given(st.integers(1, 40), st.floats(0, 0.99), st.floats(0, 3), st.integers(0, 5))
def test_risk_rises_with_slots_and_with_heavy_jobs(
    slots: int, fraction: float, step: float, threshold: int
) -> None:
    """Protects what the figure says, for every law."""
    law = LinearSlowdown(threshold, step).slowdown
    here = expected_slowdown(slots, fraction, law)
    assert here >= 1 - 1e-9
    assert expected_slowdown(slots + 1, fraction, law) >= here - 1e-9
    assert expected_slowdown(slots, fraction + 0.01, law) >= here - 1e-9


def test_extremes() -> None:
    """Protects p = 0 and p = 1."""
    assert expected_slowdown(8, 0.0, THESIS_TABLE.slowdown) == 1.0
    assert expected_slowdown(8, 1.0, THESIS_TABLE.slowdown) == pytest.approx(1 + 0.4 * 7)
