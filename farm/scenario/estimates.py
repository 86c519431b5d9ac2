"""``estimates``: which dispatch-time estimates a run gives and logs, and what seeds them."""

from __future__ import annotations

from typing import Literal

from farm.scenario.quantities import Duration, Positive, Text
from farm.scenario.section import Section

RuleSet = Literal["page", "launchpad-2010", "launchpad", "farm", "rollout"]


class Estimates(Section):
    """Each submitted job is given an estimate of its dispatch, as an event in the log."""

    rules: tuple[RuleSet, ...] | None = None
    """Who estimates: rule sets of the formula, and `rollout` (the farm forked and played forward).
    Absent: `launchpad` in `farm run`, none in `farm simulate`."""
    run_times: tuple[Text, ...] = ()
    """Runtime estimators that all of them are asked with, one after the other; empty: the one that
    `scheduling.runtime_estimates` names."""
    every: Positive = 1
    """Every n-th submitted job is given estimates."""
    rollouts: Positive = 50
    """How often the farm is rolled out for one submission."""
    refresh: Duration = 5.0
    """Time between two sweeps of a queue of more than a thousand jobs; in between a job is
    estimated by its place in the last sweep."""
    learn_from: Text | None = None
    """A finished run (its directory) or exported statistics (a file) that the runtime estimators
    have learned from when the run begins."""
