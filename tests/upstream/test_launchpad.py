"""Launchpad's scores, durations and judgement beyond the tables of numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core.errors import InputError
from farm.core.jobs.failure_judgement import Judgement, judge_failure
from farm.upstream.launchpad import estimate_duration, score_other_build, score_package_build


def test_package_sets_count_outside_ppas_only():
    """The best package set counts, and none in a PPA or for translations."""
    assert score_package_build(packagesets=[3, 100, 7]) == 2605
    assert score_package_build(packagesets=[100], ppa=True) == 2505
    assert score_package_build(packagesets=[100], section="translations") == 0


def test_other_kinds():
    """Recipes, snaps and live file systems add relative scores; the others do not."""
    assert score_other_build("recipe", archive_relative=10) == 2520
    assert score_other_build("livefs", archive_relative=10, own_relative=5) == 2525
    assert score_other_build("oci", archive_relative=10) == 2510
    assert score_other_build("ci") == 2600
    assert score_other_build("translationtemplates") == 2515


@pytest.mark.parametrize("bad", [{"urgency": "high"}, {"pocket": "Main"}])
def test_unknown_words_are_refused(bad):
    """A word that is in no table names what is allowed."""
    with pytest.raises(InputError, match="allowed:"):
        score_package_build(**bad)
    with pytest.raises(InputError, match="allowed:"):
        score_other_build("flatpak")
    with pytest.raises(InputError, match="allowed:"):
        estimate_duration("flatpak")


def test_only_nine_builds_are_remembered():
    """A tenth success is forgotten; recipes take the lower of two medians, the rest the upper."""
    history = [10, 20, 30, 40, 50, 60, 70, 80, 90, 1000, 1000, 1000]
    assert estimate_duration("snap", history) == 50
    assert estimate_duration("snap", [1, 2, 3, 4]) == 3
    assert estimate_duration("recipe", [1, 2, 3, 4]) == 2


@pytest.mark.parametrize(("kb", "seconds"), [(0, 300), (None, 300), (360, 120), (1800, 360)])
def test_duration_by_size(kb, seconds):
    """Six kilobytes a second and a minute on top, in whole minutes; without a size five."""
    assert estimate_duration("binary", (), kb) == seconds


def test_a_builder_that_always_breaks_dispatch():
    """Reset, then three times dirtied, then out of service; its jobs are always requeued."""
    verdicts = [judge_failure(count, 1, retry=False).builder_action for count in range(1, 6)]
    assert verdicts == [None, "dirty", "dirty", "dirty", "fail"]
    assert {judge_failure(count, 1, retry=False).job_action for count in range(1, 6)} == {"reset"}


def test_isolation_error_condemns_both():
    """A wrong worker: builder and job fail at once."""
    assert judge_failure(1, 1, isolation_error=True) == Judgement("fail", "fail", 0)


def test_endless_reset_is_bounded_on_request():
    """One job and one builder that break each other: forever upstream, `max_resets` times here."""

    def resets(bound, tries=50):
        for failures in range(1, tries):
            verdict = judge_failure(
                failures, failures, retry=False, resets=failures - 1, max_resets=bound
            )
            if verdict.job_action == "fail":
                return failures - 1, verdict
        return None

    assert resets(None) is None
    assert resets(3) == (3, Judgement(None, "fail", 4))


@settings(deadline=None)
@given(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.booleans())
def test_cancelling_jobs_always_end(builder, job, retry, isolated):
    """Whatever the counts, a job that was being cancelled ends cancelled."""
    verdict = judge_failure(builder, job, retry=retry, isolation_error=isolated, cancelling=True)
    assert verdict.job_action == "cancelled"
