"""Launchpad's scores, and its estimates of how long a build will run, made when it is queued.

Of two jobs the one with the higher score goes first, then the one with the lower id.

Source: ``calculateScore`` and ``estimateDuration`` of binarypackagebuild.py and its siblings for
other kinds of build (2025); the score with an age bonus is that of buildpackagejob.py (2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from farm.core.errors import InputError

POCKETS = {"BACKPORTS": 0, "RELEASE": 1500, "PROPOSED": 3000, "UPDATES": 3000, "SECURITY": 4500}
COMPONENTS = {"multiverse": 0, "universe": 250, "restricted": 750, "main": 1000, "partner": 1250}
"""Points by component; any other component has none."""
URGENCIES = {"LOW": 5, "MEDIUM": 10, "HIGH": 15, "EMERGENCY": 20}
PRIVATE_BONUS = 10_000
COPY_ARCHIVE_PENALTY = 2600
COPY_ARCHIVE_SCORE_2010 = -10

KINDS = {
    "recipe": 2510,
    "snap": 2510,
    "livefs": 2510,
    "charm": 2510,
    "craft": 2510,
    "rock": 2510,
    "oci": 2510,
    "ci": 2600,
    "translationtemplates": 2515,
}
"""Points of the kinds of build that are not binary packages."""
_ADDS_ARCHIVE = ("recipe", "snap", "livefs")

AGE_BONUS_2010 = ((14400, 100), (7200, 50), (3600, 20), (1800, 15), (900, 10), (300, 5))
"""(more than this many seconds in the queue, points); the first that fits counts. Until 2012."""


def score_package_build(
    *,
    urgency: str = "LOW",
    pocket: str = "RELEASE",
    component: str = "main",
    section: str = "",
    private: bool = False,
    copy_archive: bool = False,
    archive_relative: int = 0,
    packagesets: Iterable[int] = (),
    ppa: bool = False,
) -> int:
    """Score a binary package build as Launchpad does today.

    ``archive_relative`` and ``packagesets`` are relative build scores: the archive's own is
    always added, of the package sets' the highest, and none in a PPA. Translations get nothing
    for urgency, pocket, component and package sets. Raises InputError for an unknown urgency or
    pocket.
    """
    score = archive_relative
    score += PRIVATE_BONUS if private else 0
    score -= COPY_ARCHIVE_PENALTY if copy_archive else 0
    if section == "translations":
        return score
    score += _parts(urgency, pocket, component)
    return score if ppa else score + max(packagesets, default=0)


def score_package_build_2010(
    *,
    waited_s: float = 0.0,
    urgency: str = "LOW",
    pocket: str = "RELEASE",
    component: str = "main",
    section: str = "",
    private: bool = False,
    copy_archive: bool = False,
    archive_relative: int = 0,
) -> int:
    """Score a binary package build as in 2010: translations 0, copy archives -10, age counts."""
    if section == "translations":
        score = 0
    elif copy_archive:
        score = COPY_ARCHIVE_SCORE_2010
    else:
        score = _parts(urgency, pocket, component) + age_bonus_2010(waited_s)
    return score + archive_relative + (PRIVATE_BONUS if private else 0)


def age_bonus_2010(waited_s: float) -> int:
    """Return the points for seconds spent in the queue; they start again every day, as upstream."""
    of_the_day = int(waited_s) % 86_400
    return next((points for limit, points in AGE_BONUS_2010 if of_the_day > limit), 0)


def score_other_build(kind: str, *, archive_relative: int = 0, own_relative: int = 0) -> int:
    """Score a build that is not a binary package.

    The archive's relative score counts for recipes, snaps and live file systems; a live file
    system has one of its own too. Raises InputError for an unknown kind.
    """
    score = _points(KINDS, kind, "kind")
    score += archive_relative if kind in _ADDS_ARCHIVE else 0
    return score + (own_relative if kind == "livefs" else 0)


def _parts(urgency: str, pocket: str, component: str) -> int:
    points = _points(URGENCIES, urgency, "urgency") + _points(POCKETS, pocket, "pocket")
    return points + COMPONENTS.get(component, 0)


def _points(table: Mapping[str, int], found: str, what: str) -> int:
    if found not in table:
        raise InputError(f"{what}: found {found!r}; allowed: {', '.join(table)}")
    return table[found]


# --- durations ------------------------------------------------------------------------

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
