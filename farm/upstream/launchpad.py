"""Launchpad's rules: scores, run times, and those of its dispatch estimates (head job, rounding).

Of two jobs the one with the higher score goes first, then the one with the lower id.

Source: ``calculateScore`` and ``estimateDuration`` of binarypackagebuild.py and its siblings for
other kinds of build (2025); the page on dispatch time estimation, and the code of BuildQueue (2010)
and queuedepth.py (2025).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from farm.core.errors import InputError
from farm.core.model import Platform

POCKETS = {"BACKPORTS": 0, "RELEASE": 1500, "PROPOSED": 3000, "UPDATES": 3000, "SECURITY": 4500}
COMPONENTS = {"multiverse": 0, "universe": 250, "restricted": 750, "main": 1000, "partner": 1250}
"""Points by component; any other component has none."""
URGENCIES = {"LOW": 5, "MEDIUM": 10, "HIGH": 15, "EMERGENCY": 20}
PRIVATE_BONUS = 10_000
COPY_ARCHIVE_PENALTY = 2600

KINDS = {
    **dict.fromkeys(("recipe", "snap", "livefs", "charm", "craft", "rock", "oci"), 2510),
    "ci": 2600,
    "translationtemplates": 2515,
}
"""Points of the kinds of build that are not binary packages."""
_ADDS_ARCHIVE = ("recipe", "snap", "livefs")


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
    **dict.fromkeys(("recipe", "charm", "craft", "rock", "ci"), 600.0),
    **dict.fromkeys(("snap", "livefs", "oci"), 1800.0),
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


# --- dispatch estimates ----------------------------------------------------------------


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """One interpretation of "time to next builder + predecessor lead time"."""

    name: str
    #: sums are rounded to whole seconds (half to even), quotients and TNB are truncated
    whole_seconds: bool = False
    #: no estimate is shorter than this, seconds
    floor_s: float = 0.0
    #: the head job is the first of the whole queue, not of the competing jobs
    global_head: bool = False
    #: an unspecified virtualization is set to virtual when the job is queued
    spells_out: bool = False
    #: a job with a processor and an unspecified virtualization finds no builder
    loses_unspecified: bool = False
    #: a job that is being cancelled frees its builder like a running one
    sees_cancelling: bool = False
    #: two platforms compete if some usable builder can run both, whatever their names
    shared_builders: bool = False

    def shown(self, platform: Platform) -> Platform:
        """Return the platform as named by this rule set."""
        return platform.normalised() if self.spells_out else platform

    def head_place(self, place: int, rivals: Iterable[int]) -> int:
        """Return the place of the head job; ``rivals``: of the first of each competing group."""
        return 0 if self.global_head else min((place, *rivals))

    def head_shown(self, head: Platform, *, own: bool) -> Platform:
        """Return the head job's platform as named by this rule set.

        ``own``: the job of interest is the head itself; its virtualization is always explicit.
        """
        return head.normalised() if own and not self.global_head else self.shown(head)


PAGE = Rules(name="page", global_head=True, sees_cancelling=True)
"""The page to the letter: no rounding, no floor."""

LAUNCHPAD_2010 = Rules(
    name="launchpad-2010", whole_seconds=True, floor_s=5.0, loses_unspecified=True
)
"""The code when that page was written (August 2010)."""

LAUNCHPAD = Rules(name="launchpad", whole_seconds=True, floor_s=5.0, spells_out=True)
"""The code of today: virtualization is always true or false."""
