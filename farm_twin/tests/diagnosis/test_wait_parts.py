"""What jobs waited for is told part by part, and so are the reasons that are no queue's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import pytest

from farm.records.attempt import Attempt
from farm_twin.diagnosis.diagnose import diagnose
from farm_twin.diagnosis.figures import PlatformFigures
from farm_twin.diagnosis.verdict import Verdict
from tests.fixtures.attempts import MONDAY, attempt, bundle_of

Job = tuple[float, float, float, str]
"""Arrival, start, end and runner; seconds, since the first hour."""


def judged(jobs: Sequence[Job], objective: float = 300.0) -> tuple[PlatformFigures, Verdict]:
    """Return the figures of the only platform, and the verdict on it."""
    attempts: list[Attempt] = [
        attempt(number, MONDAY + at, MONDAY + begins, MONDAY + ends, runner=runner)
        for number, (at, begins, ends, runner) in enumerate(jobs)
    ]
    examination = diagnose(bundle_of(attempts), UTC, objective)
    [figures] = examination.figures.platforms
    return figures, examination.verdicts[0]


def light(runners: int = 10, every: float = 120.0, jobs: int = 300) -> list[Job]:
    """Return jobs of 300 s, which start at once and use the runners in turn."""
    return [
        (every * number, every * number + 1.0, every * number + 301.0, f"m{number % runners}")
        for number in range(jobs)
    ]


def test_nearly_all_of_a_short_wait_is_the_start_of_the_runner():
    """Where a platform is fine, too, it is said that more runners change nothing of 45 s."""
    jobs = [(at, at + 45.0, at + 345.0, f"pod-{place}") for place, (at, *_) in enumerate(light())]

    figures, verdict = judged(jobs)

    assert verdict.kind == "fine"
    assert figures.wait_parts.start > 44.0
    assert "on average" in verdict.text
    assert "are the runner's start" in verdict.text


def test_runners_that_use_names_again_come_for_jobs():
    """An autoscaled pool numbers its machines anew: these stood idle while jobs waited."""
    jobs = [
        (at, at + 400.0 + 7 * (place % 5), at + 700.0 + 7 * (place % 5), f"m{place % 10}")
        for place, (at, *_) in enumerate(light())
    ]

    figures, verdict = judged(jobs)

    assert figures.grows
    assert (verdict.kind, verdict.grade) == ("boot time", "likely")


def test_jobs_that_are_held_are_named():
    """Younger jobs started, and the doctor said to look at dispatch, caps and labels."""
    jobs = [
        (at - (3600.0 + 41.0 * place if place % 7 == 3 else 0.0), begins, ends, runner)
        for place, (at, begins, ends, runner) in enumerate(light(every=100.0, jobs=200))
    ]

    figures, verdict = judged(jobs)

    assert (verdict.kind, verdict.grade) == ("not capacity", "sure")
    assert figures.wait_parts.held > 0.9 * figures.wait_parts.whole
    assert "are of jobs that were held while younger ones started" in verdict.text


def test_times_in_which_nothing_starts_are_named():
    """A dispatcher that is down for 25 minutes now and then."""
    jobs = []
    for at, _, ends, runner in light():
        begins = max(at + 1.0, at // 3600.0 * 3600.0 + 1500.0)
        jobs.append((at, begins, begins + ends - at - 1.0, runner))

    figures, verdict = judged(jobs)

    assert (verdict.kind, verdict.grade) == ("not capacity", "sure")
    assert figures.wait_parts.stall > 0.7 * figures.wait_parts.whole
    assert "are while none started although slots were free" in verdict.text


def test_runners_that_may_run_other_jobs_make_no_sure_verdict():
    """Half of the load was in no record: "not capacity" was reversed, and sure."""
    jobs = []
    busy_until = dict.fromkeys(range(10), 0.0)
    for place in range(600):
        at = 35.0 * place
        runner = min(busy_until, key=busy_until.__getitem__)
        begins = max(at, busy_until[runner])
        busy_until[runner] = begins + 400.0
        if (place + place // 10) % 2:
            jobs.append((at, begins, begins + 400.0, f"m{runner}"))

    _, verdict = judged(jobs)

    assert (verdict.kind, verdict.grade) == ("not capacity", "likely")
    assert verdict.text.startswith("unless these runners also run jobs that are not in these rec")


def test_hours_that_no_record_has_are_left_out_of_rates():
    """Pages of a morning were missing: a fifth fewer jobs came, and nothing was said."""
    day = 86_400.0
    hole = (1.4 * day, 1.6 * day)
    jobs = [job for job in light(jobs=2880) if not hole[0] <= job[0] < hole[1]]

    figures, verdict = judged(jobs)

    assert figures.arrivals_per_hour == pytest.approx(30.0, rel=0.01)
    assert any("nothing came, started or ended on any platform" in it for it in verdict.evidence)
    # a night is as quiet on other days
    by_day = [job for job in light(jobs=2880) if job[0] % day < 0.6 * day]
    _, verdict = judged(by_day)
    assert not any("nothing came" in it for it in verdict.evidence)
    # nor is the time between two bursts a hole
    in_bursts = [
        (at, at + number % 60, at + 300.0 + number % 60, f"m{number % 60}")
        for number in range(2880)
        for at in [9000.0 * (number // 60) + 4000.0 * (number // 60 % 3)]
    ]
    _, verdict = judged(in_bursts)
    assert not any("nothing came" in it for it in verdict.evidence)
