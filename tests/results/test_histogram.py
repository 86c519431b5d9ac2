"""Spreads from a histogram: near percentiles, exact moments, and bins that do not become more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.results.descriptive_statistics import Spread, spread_of
from farm.results.summary.histogram import RELATIVE_ERROR, Histogram
from tests.fixtures.examples import examples

finite = {"allow_nan": False, "allow_infinity": False, "allow_subnormal": False}
times = st.one_of(
    st.sampled_from([0.0, 1.0, 1.0009765625, 2.0, math.nextafter(2.0, 0.0), 5e-324]),
    st.floats(0.0, 1e12, **finite),
    st.floats(1e-300, 1e140, **finite),
)


def counted(values: np.ndarray, pieces: int = 1) -> Histogram:
    """Return the histogram of values that come in pieces."""
    made = Histogram()
    for piece in np.array_split(values, pieces):
        made.take(piece)
    return made


def assert_near(found: Spread, exact: Spread) -> None:
    """Percentiles are within the stated error, everything else as it is."""
    assert found.count == exact.count
    assert found.max == exact.max
    assert found.mean == pytest.approx(exact.mean, rel=1e-12, abs=5e-324)
    assert found.std == pytest.approx(exact.std, rel=1e-9, abs=1e-9 * (exact.max or 0.0))
    for name in ("p50", "p95", "p99"):
        value, near = getattr(exact, name), getattr(found, name)
        # interpolation rounds, too; floats below 2^-1022 count as 0
        assert abs(near - value) <= value * RELATIVE_ERROR * (1 + 1e-9) + 2**-1022


@examples(300)
@given(st.lists(times, min_size=1, max_size=60), st.integers(1, 5))
def test_percentiles_are_within_a_tenth_of_a_percent(values, pieces):
    """Protects the error that summaries state, for any values in any pieces."""
    assert RELATIVE_ERROR <= 0.001
    data = np.array(values)
    assert_near(counted(data, pieces).spread(), spread_of(data))


@examples(60)
@given(st.lists(st.lists(times, max_size=20), min_size=1, max_size=4))
def test_merged_histograms_are_that_of_all(lists):
    """Protects the spreads of pools and platforms, whose jobs are counted in several histograms."""
    merged = Histogram()
    for values in lists:
        merged.merge(counted(np.array(values, np.float64)))
    together = np.array([value for values in lists for value in values], np.float64)
    if len(together):
        assert_near(merged.spread(), spread_of(together))
    else:
        assert merged.spread() == Spread(count=0)


def test_the_largest_floats_are_counted():
    """Protects the upper edge of the last bin, which is infinite."""
    largest = float(np.finfo(np.float64).max)
    for value in (largest, largest * 0.998):
        spread = counted(np.array([1.0, 1.0, value])).spread()
        assert spread.max == value
        assert spread.p99 is not None
        assert math.isfinite(spread.p99)


def test_few_bins_for_a_wide_range():
    """Protects the bound of memory: a microsecond to a year, in a hundred thousand values."""
    values = np.geomspace(1e-6, 3e7, 100_000)
    made = counted(values, 7)
    assert len(made._counts) < 25_000
    assert int(made._counts.sum()) == len(values)


def test_deviations_of_values_far_from_zero():
    """Protects the standard deviation, where squares of the values themselves would cancel."""
    values = 1e9 + np.tile([0.0, 1.0], 50_000)
    assert counted(values, 11).spread().std == pytest.approx(0.5, rel=1e-9)
