"""The scale set's rule of GitHub's actions-runner-controller."""

from __future__ import annotations

from farm.core.pools.formulas.sizing import builders_for, towards


def plan(look, options):
    """Return the plan: a runner for each assigned job, and the least number to spare."""
    wanted = options.least + builders_for(look.waiting_jobs + look.running_jobs, look)
    return towards(look, options, wanted, look.idle)
