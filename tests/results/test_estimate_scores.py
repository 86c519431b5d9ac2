"""Scores of dispatch estimates: hand-made runs whose numbers can be checked by eye."""

from __future__ import annotations

import pytest

from farm.core.commands import StartJob
from farm.core.events import EstimateMade, JobsSubmitted
from farm.core.model import Job, Platform
from farm.results.estimate_scores import answer_of, score
from farm.results.log.reader import Entry


def told(job, dispatch_at, waiting, quantiles=()):
    """Return an estimate of the formula, made at 0."""
    made = EstimateMade(0.0, job, "launchpad", dispatch_at, "last-3", waiting, None, quantiles)
    return Entry(made, [], 1)


def dispatched(at, *names):
    """Return jobs dispatched to a builder at this instant."""
    jobs = [Job(id=name, service_time=1.0) for name in names]
    return Entry(JobsSubmitted(at, ()), [StartJob(job, 1, "b", 0) for job in jobs], 1)


def test_errors_are_estimate_less_truth() -> None:
    """Bias, mean and median absolute error, relative error, of waits of 10, 20 and 60 s."""
    made = [told("a", 20.0, 3), told("b", 20.0, 4), told("c", 30.0, 20)]
    came = [dispatched(10.0, "a"), dispatched(20.0, "b"), dispatched(60.0, "c")]
    (found,) = score([*made, *came])
    assert (found.name, found.given, found.scored) == ("launchpad + last-3", 3, 3)
    assert found.bias_time == pytest.approx((10 + 0 - 30) / 3)
    assert found.mean_absolute_error_time == pytest.approx(40 / 3)
    assert found.median_absolute_error_time == pytest.approx(10)
    assert found.relative_error == pytest.approx(40 / 90)
    assert found.within_p90 is None
    assert found.calibration == ()
    lengths = [(one.low, one.high, one.count) for one in found.by_queue_length]
    assert lengths == [(1, 11, 2), (11, 51, 1)]
    assert [(one.low, one.count) for one in found.by_horizon] == [(0.0, 3)]


def test_a_late_estimate_counts_from_its_request() -> None:
    """A live farm needs some time to estimate: the wait is the job's, not the estimator's."""
    made = EstimateMade(4.0, "a", "launchpad", 20.0, "last-3", 3, asked_at=0.0)
    (found,) = score([Entry(made, [], 1), dispatched(10.0, "a")])
    assert found.relative_error == pytest.approx(10 / 10)


def test_unscorable_estimates_are_counted_apart() -> None:
    """No estimate, dispatched at once, never dispatched; only the first dispatch is the truth."""
    made = [told("a", None, 3), told("b", 0.0, 0), told("c", 7.0, 2), told("d", 7.0, 2)]
    came = [dispatched(0.0, "b"), dispatched(5.0, "d"), dispatched(50.0, "d")]
    (found,) = score([*made, *came])
    assert (found.given, found.without, found.at_once, found.undispatched) == (4, 1, 1, 1)
    assert found.scored == 1
    assert found.bias_time == pytest.approx(2.0)


def test_calibration_counts_kept_promises() -> None:
    """Of two jobs with the deciles 1 … 9 s, dispatched after 2.5 and 8.5 s."""
    deciles = tuple(float(n) for n in range(1, 10))
    made = [told(name, 5.0, 3, deciles) for name in "ab"]
    (found,) = score([*made, dispatched(2.5, "a"), dispatched(8.5, "b")])
    assert [one.observed for one in found.calibration] == [0, 0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1]
    assert found.within_p90 == 1.0


def test_no_estimates_no_scores() -> None:
    """A run without estimates has nothing to score."""
    assert score([dispatched(1.0, "a")]) == []


def test_two_sided_coverage_and_close_estimates_by_platform() -> None:
    """Within 1 and 10 minutes, between P10 and P90, by either end; without intervals, none."""
    deciles = tuple(100.0 * n for n in range(1, 10))
    entries = [*(told(name, 500.0, 3, deciles) for name in "abc"), told("d", 1000.0, 3)]
    entries += [dispatched(50.0, "a"), dispatched(450.0, "b"), dispatched(1200.0, "c")]
    other = Job(id="d", service_time=1.0, platform=Platform("arm64"))
    entries.append(Entry(JobsSubmitted(1001.0, ()), [StartJob(other, 1, "b", 0)], 1))
    (found,) = score(entries)
    assert (found.within_minute, found.within_ten_minutes) == (2 / 4, 3 / 4)
    assert found.intervals == 3
    assert found.within_p10_p90 == found.within_p10 == 1 / 3
    assert found.within_p90 == 2 / 3
    any_, arm = found.by_platform
    assert (any_.platform, any_.scored, any_.within_p10_p90) == ("any/virtual", 3, 1 / 3)
    assert (arm.platform, arm.intervals, arm.within_minute) == ("arm64/virtual", 0, 1.0)
    assert arm.within_p10_p90 is None


def test_a_sentence_says_how_good_the_estimates_are() -> None:
    """A user who reads nothing else learns how far off they are, in which direction, and which."""
    deciles = tuple(float(n) for n in range(10, 100, 10))
    made = [told(name, 50.0, 3, deciles) for name in "abc"]
    other = EstimateMade(0.0, "a", "rollout", 45.0, "oracle", 3)
    came = [dispatched(40.0, "a", "b"), dispatched(5.0, "c")]
    scores = score([*made, Entry(other, [], 1), *came])
    assert answer_of(scores[:1]) == (
        "the estimates of 3 jobs that waited are off by 22 s on average, 76.5 % of the wait, for "
        "the most part too late; 66.7 % of the intervals P10 - P90 held, which should be 80 %"
    )
    assert "off by 5 s" in answer_of(scores)
    others = "this is rollout + oracle, and 1 other estimator came less near"
    assert answer_of(scores).endswith(others)


def test_a_sentence_says_that_nothing_can_be_scored() -> None:
    """Jobs that started at once needed no estimate."""
    assert answer_of(score([told("b", 0.0, 0), dispatched(0.0, "b")])) == (
        "no job of this run that waited has an estimate, so none can be scored"
    )
