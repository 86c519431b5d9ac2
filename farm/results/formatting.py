"""Readable numbers: spans with units, thousands separated, few digits."""

from __future__ import annotations

import math

NOTHING = "-"


def readable_span(seconds: float | None) -> str:
    """Return a span in at most two units: ``350 ms``, ``12.3 s``, ``4m 05s``, ``2h 03m``."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 0:
        return "-" + readable_span(-seconds)
    if seconds == 0:
        return "0 s"
    if seconds < 1e-6:
        return "< 1 µs"
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    whole = round(seconds / 60)
    if whole < 48 * 60:
        return f"{whole // 60}h {whole % 60:02d}m"
    whole = round(seconds / 3600)
    return f"{whole // 24}d {whole % 24:02d}h"


def readable_count(value: int | None) -> str:
    """Return a count with thousands separators: ``106,233``."""
    return NOTHING if value is None else f"{value:,}"


def readable_ratio(value: float | None) -> str:
    """Return a pure number with three significant digits."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def readable_percent(value: float | None, *, signed: bool = False) -> str:
    """Return a fraction as a percentage with one decimal."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value * 100:+.1f} %" if signed else f"{value * 100:.1f} %"
