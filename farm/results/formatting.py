"""Readable numbers: spans with units, thousands separated, few digits."""

from __future__ import annotations

import math

from farm.units import LARGEST_EXACT, format_roughly, format_time

NOTHING = "-"
BEGINNINGS = ("no", "not", "nothing", "the", "fewer", "mean", "with", "this", "kept", "one", "it")


def readable_span(seconds: float | None) -> str:
    """Return a span in at most two units: ``350ms``, ``12.3s``, ``4m5s``, ``2h3m``."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if abs(seconds) < 3599.5 or abs(seconds) > LARGEST_EXACT:
        return format_roughly(seconds)
    grain = 60 if abs(seconds) < 2 * 86400 - 30 else 3600
    sign = "-" if seconds < 0 else ""
    return sign + format_time(float(round(abs(seconds) / grain) * grain))


def sentence(text: str) -> str:
    """Return a text with a full stop, and a capital where it does not begin with a name."""
    begin = text[:1].upper() if text.split(" ", 1)[0] in BEGINNINGS else text[:1]
    return f"{begin}{text[1:]}."


def after_caveat(caveat: str, answer: str) -> str:
    """Return an answer after what must be known before it; empty: nothing must."""
    if not caveat:
        return answer
    return f"{caveat}. {sentence(answer).removesuffix('.')}"


def spoken_span(seconds: float) -> str:
    """Return a span in one unit, with two digits, as a person says it: ``26 min``, ``4.5 h``."""
    if not math.isfinite(seconds):
        return NOTHING
    unit, length = spoken_unit(seconds)
    return f"{spoken_in(seconds, length)} {unit}"


def spoken_unit(seconds: float) -> tuple[str, float]:
    """Return the unit in which a span is said, and its length in seconds."""
    units = (("days", 86400.0, 2.0), ("h", 3600.0, 1.65), ("min", 60.0, 1.65), ("s", 1.0, 0.0995))
    found = ((unit, length) for unit, length, least in units if abs(seconds) >= least * length)
    return next(found, ("ms", 0.001) if seconds else ("s", 1.0))


def spoken_in(seconds: float, length: float) -> str:
    """Return a span in a unit of this length, with two digits."""
    value = seconds / length
    return f"{value:,.0f}" if abs(value) >= 9.95 else f"{value:.1f}".removesuffix(".0")


def spoken_number(value: int) -> str:
    """Return a small number as a word."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[value] if 0 <= value < len(words) else f"{value:,}"


def readable_ratio(value: float | None) -> str:
    """Return a pure number with three significant digits."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.0f}" if 999.5 <= abs(value) < LARGEST_EXACT else f"{value:.3g}"


def readable_percent(value: float | None, *, signed: bool = False) -> str:
    """Return a fraction as a percentage with one decimal.

    A difference (``signed``) of ten times the base and more is a factor, such as ``630 times``.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    percent = round(value * 100, 1) or 0.0  # none below zero that reads -0.0
    if signed:
        return f"{percent:+.1f} %" if percent < 1000 else f"{readable_ratio(1 + value)} times"
    return f"{percent:,.{1 if percent < 1000 else 0}f} %"
