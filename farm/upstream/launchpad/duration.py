"""Launchpad's estimates of how long a build will run: fixed when the build is queued.

Source: ``estimateDuration`` of binarypackagebuild.py and its siblings for other kinds (2025).
"""

from __future__ import annotations

from collections.abc import Sequence

from farm.core.errors import InputError

HISTORY = 9
"""Of other kinds than binary packages, this many of the latest successes are looked at."""

BINARY_DEFAULT_S = 300.0
TRANSLATION_TEMPLATES_S = 10.0
KB_PER_SECOND = 6
"""Binary packages without a history: 6 KB of source a second and a minute on top."""

DEFAULTS_S = {
    "recipe": 600.0,
    "charm": 600.0,
    "craft": 600.0,
    "rock": 600.0,
    "ci": 600.0,
    "snap": 1800.0,
    "livefs": 1800.0,
    "oci": 1800.0,
}
"""Other kinds without a history, seconds."""


def estimate_duration(
    kind: str, history_s: Sequence[float] = (), package_kb: float | None = None
) -> float:
    """Estimate a build's duration, seconds.

    ``history_s`` holds the durations of successful builds of the same thing, newest first. A
    binary package takes its newest one; without any it is estimated by its size in whole
    minutes, else five minutes. Other kinds take the median of the last nine, of an even number
    the upper one, recipes the lower one. Raises InputError for an unknown kind.
    """
    if kind == "translationtemplates":
        return TRANSLATION_TEMPLATES_S
    if kind == "binary":
        return float(history_s[0]) if history_s else _by_size(package_kb)
    if kind not in DEFAULTS_S:
        allowed = ", ".join(("binary", *DEFAULTS_S, "translationtemplates"))
        raise InputError(f"kind: found {kind!r}; allowed: {allowed}")
    recent = sorted(history_s[:HISTORY], reverse=kind == "recipe")
    return float(recent[len(recent) // 2]) if recent else DEFAULTS_S[kind]


def _by_size(package_kb: float | None) -> float:
    if not package_kb or package_kb < 0:
        return BINARY_DEFAULT_S
    return 60.0 * int(package_kb / KB_PER_SECOND / 60 + 1)
