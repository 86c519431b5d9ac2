"""Scores of dispatch estimates: hand-made runs whose numbers can be checked by eye."""

from __future__ import annotations

import pytest

from farm.core.commands import EndJob, StartJob
from farm.core.events import EstimateMade, JobsSubmitted
from farm.core.model import Job, Platform
from farm.results.estimate_scores import Score, answer_of, score, trust_of
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


def test_a_range_is_scored_by_its_width_and_what_lies_outside() -> None:
    """Winkler's score: a range that is too narrow, or needlessly wide, must not look good."""
    deciles = tuple(float(n) for n in range(10, 100, 10))
    made = [told(name, 50.0, 3, deciles) for name in "abc"]
    came = [dispatched(40.0, "a"), dispatched(5.0, "b"), dispatched(93.0, "c")]
    (found,) = score([*made, *came])
    assert found.interval_time == 80.0
    assert found.interval_score_time == pytest.approx(80.0 + 10 * (0 + 5 + 3) / 3)
    assert found.relative_bias == pytest.approx((150 - 138) / 138)


def test_coverage_is_told_by_level_of_urgency() -> None:
    """Urgent jobs wait otherwise than the rest: the mean of both would hide it."""
    deciles = tuple(float(n) for n in range(10, 100, 10))
    made = [told(name, 50.0, 3, deciles) for name in "abc"]
    urgent = StartJob(Job(id="c", service_time=1.0, level=7), 1, "b", 0)
    came = [dispatched(40.0, "a", "b"), Entry(JobsSubmitted(99.0, ()), [urgent], 1)]
    (found,) = score([*made, *came])
    levels = [(one.level, one.scored, one.within_p10_p90) for one in found.by_level]
    assert levels == [(0, 2, 1.0), (7, 1, 0.0)]


def history(count: int) -> list[Entry]:
    """Return jobs that come a second after each other, wait 3 s, run 2 s, and are no more told."""
    entries = []
    for n in range(count):
        job = Job(id=f"old{n}", service_time=2.0)
        at = float(n)
        entries += [
            (at, JobsSubmitted(at, (job,)), ()),
            (at + 3, JobsSubmitted(at + 3, ()), [StartJob(job, 1, "b", 0)]),
            (
                at + 5,
                JobsSubmitted(at + 5, ()),
                [EndJob(job, "succeeded", 1, at, at + 5, at + 3, at + 3, "b")],
            ),
        ]
    entries.sort(key=lambda one: one[0])
    return [Entry(event, commands, 1) for _, event, commands in entries]


def test_two_forecasts_that_need_no_model_stand_beside() -> None:
    """The last waits, and the jobs ahead by the rate of ends: by what was known at submission."""
    new = [Job(id=name, service_time=2.0) for name in "xyz"]
    asked = [
        Entry(EstimateMade(100.0, job.id, "launchpad", 104.0, "last-3", 3), [], 1) for job in new
    ]
    entries = [*history(30), Entry(JobsSubmitted(100.0, tuple(new)), [], 1), *asked]
    entries.append(dispatched(108.0, "x", "y", "z"))
    ours, waits, throughput = score(entries, naive=True)
    assert (ours.rules, ours.naive) == ("launchpad", False)
    assert (waits.rules, waits.scored, waits.naive) == ("last-waits", 3, True)
    assert waits.bias_time == pytest.approx(3.0 - 8.0)
    assert waits.within_p10_p90 == 0.0
    # the last 20 of 30 ended at 15 to 34: 20 in 85 s; none, one and two jobs are ahead
    assert throughput.bias_time == pytest.approx((0 + 1 + 2) * 85 / 20 / 3 - 8.0)
    assert throughput.interval_time is None


def judged(kept: int, jobs: int = 100, naive: float | None = None) -> str:
    """Return what is said of forecasts of which this number was kept."""
    deciles = tuple(float(n) for n in range(10, 100, 10))
    names = [f"j{n}" for n in range(jobs)]
    made = [told(name, 50.0, 3, deciles) for name in names]
    came = [dispatched(50.0, *names[:kept]), dispatched(100.0, *names[kept:])]
    (found,) = score([*made, *came])
    other = None
    if naive is not None:
        other = Score(
            **{name: getattr(found, name) for name in found.__struct_fields__}
            | {"rules": "throughput", "relative_error": naive, "naive": True}
        )
    return trust_of(found, other)


def test_a_sentence_says_whether_forecasts_may_be_trusted() -> None:
    """A reader of the tables alone would not know whether 71 % of 40 jobs is bad luck."""
    assert judged(80) == "they may be trusted: 80.0 % of their ranges held"
    assert judged(72) == "they may be trusted: 72.0 % of their ranges held"
    assert judged(100).endswith(
        "100.0 % of their ranges held, so they are wider than they need to be"
    )
    narrow = "they may not be trusted: 50.0 % of their ranges held, which should be 80 %"
    assert judged(50) == f"{narrow}; the fewest below 1m (50 %)"
    few = "whether they may be trusted is not known: a range of only 9 jobs can be compared"
    assert judged(8, jobs=9).startswith(few)
    assert judged(80, naive=0.5).endswith(
        "; they are off by 16.7 % of the wait, jobs ahead ÷ throughput by 50.0 %"
    )
    assert judged(80, naive=0.1).endswith(
        "; jobs ahead ÷ throughput came nearer (10.0 % of the wait, not 16.7 %)"
    )


def test_a_sentence_says_where_forecasts_may_not_be_trusted() -> None:
    """Right on the whole, wrong for urgent jobs: their users must know."""
    deciles = tuple(float(n) for n in range(10, 100, 10))
    urgent = [Job(id=f"u{n}", service_time=1.0, level=1) for n in range(30)]
    names = [f"j{n}" for n in range(170)]
    made = [told(name, 50.0, 3, deciles) for name in (*names, *(job.id for job in urgent))]
    starts = [StartJob(job, 1, "b", 0) for job in urgent]
    came = [
        dispatched(50.0, *names),
        Entry(JobsSubmitted(50.0, ()), starts[:10], 1),
        Entry(JobsSubmitted(99.0, ()), starts[10:], 1),
    ]
    (found,) = score([*made, *came])
    assert found.trust.startswith(
        "they may be trusted (90.0 % of their ranges held), but not level 1 (33 %)"
    )


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
