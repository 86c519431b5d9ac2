"""Times, rates and counts in readable form: ``1h30m``, ``0.5/s``, ``2 jobs``.

In the code a time is float seconds, a rate a float per second. Both may also be written as plain
numbers. Milliseconds exist only here.
"""

from __future__ import annotations

import math
import re

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

TIME_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w) *)+$"
RATE_PATTERN = r"^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)? */ *(ms|s|m|h|d|w)$"

_PLAIN = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(ms|s|m|h|d|w)")
_RATE = re.compile(r"(.+?) */ *(ms|s|m|h|d|w)\Z")

LARGEST_EXACT = 2.0**53
"""Up to this, whole seconds are exact."""

ALLOWED_TIME = "seconds, or numbers with units (ms s m h d w) such as 90s 5m 1h30m 2d"
ALLOWED_RATE = "a number per second, or with its unit such as 0.5/s 30/m 2/h"


def parse_time(value: object) -> float:
    """Return seconds for ``90``, ``"90s"``, ``"1h30m"``, ``"2d"``.

    Raises ValueError, saying what was found and what is allowed, for a wrong unit and for
    negative or non-finite numbers.
    """
    seconds = _plain_number(value)
    if seconds is None and isinstance(value, str):
        seconds = _sum_of_parts(value.strip())
    return _checked(seconds, value, ALLOWED_TIME)


def parse_rate(value: object) -> float:
    """Return a rate per second for ``0.5``, ``"0.5/s"``, ``"30/m"``, ``"2/h"``.

    Raises ValueError as ``parse_time`` does.
    """
    rate = _plain_number(value)
    if rate is None and isinstance(value, str) and (match := _RATE.match(value.strip())):
        number = _plain_number(match[1])
        rate = None if number is None else number / SECONDS[match[2]]
    return _checked(rate, value, ALLOWED_RATE)


def format_time(seconds: float) -> str:
    """Return the shortest text that ``parse_time`` converts to exactly these seconds."""
    if seconds < 60 or seconds != int(seconds) or seconds > LARGEST_EXACT:
        return f"{_number(seconds)}s"
    left, text = int(seconds), ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text


def format_roughly(seconds: float) -> str:
    """Return seconds as a person says them: ``350ms``, ``12.3s``, then to the second ``4m5s``."""
    if seconds < 0:
        return "-" + format_roughly(-seconds)
    if seconds > LARGEST_EXACT:
        return f"{seconds:.3g}s"
    if 1e-6 <= seconds < 0.9995:
        return f"{seconds * 1000:.3g}ms"
    return format_time(round(seconds, 1) if seconds < 59.95 else float(round(seconds)))


def format_rate(rate: float) -> str:
    """Return text that ``parse_rate`` converts to exactly this rate, per second."""
    return f"{_number(rate)}/s"


def many(count: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _number(value: float) -> str:
    """Return the exact number without an exponent or a trailing ``.0``."""
    text = repr(float(value))
    if "e" in text:
        text = f"{value:.400f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".")


def _plain_number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str) and _PLAIN.match(value.strip()):
        return float(value)
    return None


def _sum_of_parts(text: str) -> float | None:
    total, end = 0.0, 0
    for match in _PART.finditer(text):
        if text[end : match.start()].strip():
            return None
        total += float(match[1]) * SECONDS[match[2]]
        end = match.end()
    return total if end and end == len(text) else None


def _checked(number: float | None, value: object, allowed: str) -> float:
    if number is None or not math.isfinite(number) or number < 0:
        shown = repr(value) if isinstance(value, str) else str(value)
        raise ValueError(f"found {_short(shown)}; allowed: {allowed}")
    return number


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
