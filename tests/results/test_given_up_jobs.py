"""Jobs that were given up are explained: the counts only say that they were cancelled."""

from __future__ import annotations

import farm
from farm.testing import small_scenario


def test_jobs_that_no_builder_took_are_explained():
    """A pool was full of builders that never take a job, and only "2 cancelled" was said."""
    scenario = small_scenario({"failure_rate": 1.0}, {"count": 2, "every": "1m"})

    summary = farm.simulate(scenario).kept.summary

    assert summary.jobs.cancelled == 2
    [remark] = [remark for remark in summary.remarks if "given up" in remark]
    assert remark.startswith("2 jobs for amd64/virtual were given up and cancelled: no builder")


def test_jobs_that_were_served_need_no_such_remark():
    """Nothing is said where there is nothing to explain."""
    summary = farm.simulate(small_scenario()).kept.summary

    assert not [remark for remark in summary.remarks if "given up" in remark]
