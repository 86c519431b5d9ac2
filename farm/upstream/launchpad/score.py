"""Launchpad's scores: computed once, when a job is queued; higher goes first, then lower id.

Source: ``calculateScore`` of binarypackagebuild.py and its siblings for other kinds of build
(2025), and of buildpackagejob.py (2010) for the rule with an age bonus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
