"""Readable numbers: spans with units, thousands separated, few digits."""

from __future__ import annotations

import math

from farm.units import LARGEST_EXACT, format_roughly, format_time

NOTHING = "-"


def readable_span(seconds: float | None) -> str:
    """Return a span in at most two units: ``350ms``, ``12.3s``, ``4m5s``, ``2h3m``."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if abs(seconds) < 3599.5 or abs(seconds) > LARGEST_EXACT:
        return format_roughly(seconds)
    grain = 60 if abs(seconds) < 2 * 86400 - 30 else 3600
    sign = "-" if seconds < 0 else ""
    return sign + format_time(float(round(abs(seconds) / grain) * grain))


def readable_count(value: int | None) -> str:
    """Return a count with thousands separators: ``106,233``."""
    return NOTHING if value is None else f"{value:,}"


def readable_ratio(value: float | None) -> str:
    """Return a pure number with three significant digits."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if 1000 <= abs(value) < LARGEST_EXACT else f"{value:.3g}"


def readable_percent(value: float | None, *, signed: bool = False) -> str:
    """Return a fraction as a percentage with one decimal."""
    if value is None or not math.isfinite(value):
        return NOTHING
    percent = round(value * 100, 1) or 0.0  # none below zero that reads -0.0
    return f"{percent:+.1f} %" if signed else f"{percent:.1f} %"
