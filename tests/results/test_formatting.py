"""Numbers for readers: units, few digits, and nothing for a missing value."""

from __future__ import annotations

import pytest

from farm.results.formatting import readable_count, readable_percent, readable_ratio, readable_span
from farm.units import parse_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (float("inf"), "-"),
        (0.0, "0s"),
        (1e-9, "0s"),
        (5e-6, "0.005ms"),
        (0.35, "350ms"),
        (0.99999, "1s"),
        (12.34, "12.3s"),
        (59.96, "1m"),
        (245.0, "4m5s"),
        (3599.7, "1h"),
        (7380.0, "2h3m"),
        (200_000.0, "2d8h"),
        (1e300, "1e+300s"),
        (-4.0, "-4s"),
        (-7380.0, "-2h3m"),
    ],
)
def test_spans(seconds: float | None, text: str) -> None:
    """7380.0 does not look like two hours, and the text shown is valid as an option."""
    assert readable_span(seconds) == text
    if seconds is not None and 0 < seconds < 1e15:
        assert parse_time(text) == pytest.approx(seconds, rel=0.01, abs=1e-6)


def test_other_numbers() -> None:
    """Counts, ratios and percentages."""
    assert (readable_count(106233), readable_count(None)) == ("106,233", "-")
    assert (readable_ratio(1.23456), readable_ratio(12345.6)) == ("1.23", "12,346")
    assert readable_ratio(None) == readable_percent(None) == "-"
    assert readable_percent(0.1234) == "12.3 %"
    assert readable_percent(0.02, signed=True) == "+2.0 %"
