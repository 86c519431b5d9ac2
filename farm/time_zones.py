"""Time zones by their names."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def zone_named(text: str) -> tzinfo:
    """Return the time zone of this name; raises ValueError: what was found, what is allowed."""
    if text.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"found {text!r:.60}; allowed: UTC, or a name as Europe/Berlin") from None
