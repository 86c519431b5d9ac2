"""The doctor gives the answers that are known of published farms."""

from __future__ import annotations

from datetime import UTC

import numpy as np
import pytest

from farm.records.attempt import Attempt
from farm_twin.diagnosis.figures import PlatformFigures, examine
from farm_twin.diagnosis.verdict import Verdict, verdicts
from farm_twin.tests.diagnosis import published
from tests.fixtures.attempts import bundle_of, served


def seen(attempts: list[Attempt], objective: float = 300.0) -> tuple[PlatformFigures, Verdict]:
    """Return the figures of the only platform, and the only verdict."""
    bundle = bundle_of(attempts)
    [one] = examine(bundle, UTC, objective).platforms
    [verdict] = verdicts(one, bundle.manifest, objective)
    return one, verdict


def test_oloengine_is_short_by_two_thirds():
    """Jobs that were superseded count with the run time of their name, not of those that ran."""
    one, verdict = seen(published.oloengine())
    assert (one.attempts, one.censored, one.slots_seen) == (345, 152, 2)
    assert one.offered_load * 60 == pytest.approx(202.8)
    assert one.utilization == pytest.approx(1.69, abs=0.005)
    assert one.waits.p50 == pytest.approx(67.0 * 60, rel=0.05)
    assert verdict.kind == "short of servers"
    assert "44% were cancelled before they started" in verdict.text
    assert "(169 %): 115.0 jobs a day came, and 68.0 can be served" in verdict.text
    # what the jobs that ran would say
    assert one.run_time.mean is not None
    assert one.arrivals_per_hour * one.run_time.mean / 3600 / 2 < 1.66


def test_dismech_can_test_41_entries_a_day():
    """A serial queue under more than its capacity."""
    one, verdict = seen(published.dismech())
    assert one.utilization == pytest.approx(56 * 35 / 1440, rel=1e-3)
    assert verdict.kind == "short of servers"
    assert "56.0 jobs a day came, and 41.1 can be served" in verdict.text


@pytest.mark.parametrize("one_runner_per_job", [False, True])
def test_gaia_is_not_short_of_machines(one_runner_per_job):
    """Whether machines have names of their own or a new one for each job."""
    attempts = published.gaia(one_runner_per_job=one_runner_per_job)
    one, verdict = seen(attempts)
    assert one.slots_seen == 5
    assert one.busy_share_while_waiting == pytest.approx(0.52, abs=0.005)
    assert one.busy_share_while_waiting * 5 / 3 == pytest.approx(0.88, abs=0.02)  # the roster's
    assert one.waits.p50 == pytest.approx(2.5 * 3600, rel=0.1)
    assert verdict.kind == "not capacity"
    assert "48% of the slots stood idle" in verdict.text


def test_hephaestus_is_bound_by_its_plan():
    """Hosted runners are no delay where a limit on jobs at once is reached."""
    one, verdict = seen(published.hephaestus())
    assert verdict.kind == "short of servers"
    assert "never more than 20 at once" in verdict.text
    assert one.waits.p95 is not None
    assert one.waits.p95 > 20 * 60


def test_hosted_runners_without_a_limit_are_a_delay():
    """They start late at any number."""
    draw = np.random.default_rng(1)
    arrivals = published.START + np.cumsum(draw.exponential(60, 300))
    attempts = served(arrivals.tolist(), lambda: 300, 300)
    for one in attempts:
        one.hosted = True
        delay = float(draw.lognormal(6, 0.5))
        one.started_at = one.submitted_at + delay
        one.finished_at = one.started_at + 300
    assert seen(attempts)[1].kind == "hosted runners"


def test_circleci_needs_seven():
    """Of the twelve that were advised."""
    one, verdict = seen(published.circleci(), 120.0)
    assert one.offered_load == pytest.approx(4.17, rel=0.02)
    assert verdict.kind == "fine"
    assert "7 of the 12 slots would keep p95 within 2m" in verdict.text
