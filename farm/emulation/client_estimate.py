"""What the labels of a builder state, as a client of BOINC does, and how it estimates.

``availability``    the share of the time in which it computes, from 0.1 to 1
``anonymous``       ``true``: it keeps its own figure of its speed, whatever is learned elsewhere
``claimed_speed``   that figure; without it the builder's benchmark counts, which is its speed
"""

from __future__ import annotations

import math

from farm.core.model import Builder
from farm.upstream.boinc.estimates import clamped_fraction


def available(builder: Builder) -> float:
    """Return the share of the time in which the builder computes, by its label."""
    share = _number(builder, "availability")
    return 1.0 if share is None else clamped_fraction(share)


def is_anonymous(builder: Builder) -> bool:
    """Return whether the builder reports its own speed."""
    return bool(builder.labels) and builder.labels.get("anonymous") == "true"


def claimed_speed(builder: Builder) -> float:
    """Return the speed that the builder passes to the server; 0: it passes none."""
    speed = _number(builder, "claimed_speed")
    return speed if speed is not None and speed > 0 else 0.0


def own_estimate(size: float, builder: Builder) -> float:
    """Return how long the builder itself expects a job of a size to take, wall-clock seconds.

    ``size`` is in seconds at speed 1, as it was sent. Its own speed is what it claims, else its
    benchmark. Source: BOINC's page on runtime estimation, "anonymous platform case".
    """
    return size / (claimed_speed(builder) or builder.speed) / available(builder)


def flaw_of_labels(labels: dict[str, str]) -> str | None:
    """Return what is wrong with a pool's labels of these names, or None."""
    for name, allowed in _ALLOWED.items():
        text = labels.get(name)
        if text is None:
            continue
        value = _number_in(text)
        good = text in ("true", "false") if name == "anonymous" else value is not None and value > 0
        if not good:
            return f"{name}: found {text!r:.60}; allowed: {allowed}"
    return None


_ALLOWED = {
    "availability": "a number above 0 (the share of the time, up to 1)",
    "anonymous": "'true' or 'false'",
    "claimed_speed": "a number above 0",
}


def _number(builder: Builder, label: str) -> float | None:
    text = builder.labels.get(label) if builder.labels else None
    return None if text is None else _number_in(text)


def _number_in(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
