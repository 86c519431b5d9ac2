"""Numbers for people: units, few digits, and nothing where there is nothing."""

from __future__ import annotations

import pytest

from farm.results.formatting import (
    readable_count,
    readable_percent,
    readable_ratio,
    readable_span,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (float("inf"), "-"),
        (0.0, "0 s"),
        (1e-9, "< 1 µs"),
        (5e-6, "5 µs"),
        (0.35, "350 ms"),
        (12.34, "12.3 s"),
        (59.96, "1m 00s"),
        (245.0, "4m 05s"),
        (3599.7, "1h 00m"),
        (7380.0, "2h 03m"),
        (200_000.0, "2d 08h"),
        (-4.0, "-4.0 s"),
    ],
)
def test_spans(seconds: float | None, text: str) -> None:
    """Nobody reads 7380.0 as two hours."""
    assert readable_span(seconds) == text


def test_other_numbers() -> None:
    """Counts, ratios and percentages."""
    assert (readable_count(106233), readable_count(None)) == ("106,233", "-")
    assert (readable_ratio(1.23456), readable_ratio(12345.6)) == ("1.23", "12,346")
    assert readable_ratio(None) == readable_percent(None) == "-"
    assert readable_percent(0.1234) == "12.3 %"
    assert readable_percent(0.02, signed=True) == "+2.0 %"
