"""The rule sets: one formula, and a table of the differences between its implementations."""

from __future__ import annotations

import msgspec

from farm.core.model import Platform


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

    def head_shown(self, head: Platform, *, own: bool) -> Platform:
        """Return the head job's platform as named by this rule set.

        ``own``: the job of interest is the head itself; its virtualization is always explicit.
        """
        return head.normalised() if own and not self.global_head else self.shown(head)


PAGE = Rules(name="page", global_head=True, sees_cancelling=True)
"""Launchpad's page on dispatch time estimation, to the letter: no rounding, no floor."""

LAUNCHPAD_2010 = Rules(
    name="launchpad-2010", whole_seconds=True, floor_s=5.0, loses_unspecified=True
)
"""Launchpad's code when that page was written (BuildQueue, August 2010)."""

LAUNCHPAD = Rules(name="launchpad", whole_seconds=True, floor_s=5.0, spells_out=True)
"""Launchpad's code of today (queuedepth.py, 2025): virtualization is always true or false."""

FARM = Rules(name="farm", sees_cancelling=True, shared_builders=True)
"""Ours: the page's arithmetic, the code's head job, and builders with several processors seen."""

RULES = {rules.name: rules for rules in (PAGE, LAUNCHPAD_2010, LAUNCHPAD, FARM)}
"""Every rule set by its name."""
