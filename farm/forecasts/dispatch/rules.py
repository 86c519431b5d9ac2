"""The rule sets of the formula: Launchpad's (``farm/upstream/launchpad.py``), and ours."""

from __future__ import annotations

from farm.upstream.launchpad import LAUNCHPAD, LAUNCHPAD_2010, PAGE, Rules

FARM = Rules(name="farm", sees_cancelling=True, shared_builders=True)
"""Ours: the page's arithmetic, the code's head job, and builders with several processors seen."""

RULES = {rules.name: rules for rules in (PAGE, LAUNCHPAD_2010, LAUNCHPAD, FARM)}
"""Every rule set by its name."""
