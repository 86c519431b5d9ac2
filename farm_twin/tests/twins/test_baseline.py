"""Recorded and simulated waits are held against each other, with intervals."""

from __future__ import annotations

import numpy as np
import pytest

from farm_twin.twins.baseline import by_hour, check, check_of_draws, median_place
from farm_twin.twins.flags import Flag
from farm_twin.twins.grades import BELIEVABLE, verdict_of


@pytest.fixture
def waits() -> np.ndarray:
    """Return the waits of a day of jobs, rising and falling (s)."""
    rng = np.random.default_rng(3)
    return 600 * (1 + np.sin(np.arange(1200) / 190)) + rng.exponential(30, 1200)


def test_the_same_waits_have_no_error(waits):
    """No figure differs, and every job is within a minute."""
    found = check(waits, waits)
    assert (found.mean_error.value, found.p50_error.high, found.bias.low) == (0.0, 0.0, 0.0)
    assert found.correlation is not None
    assert found.correlation.value == pytest.approx(1.0)
    assert found.within_1m.low == 1.0


def test_errors_are_shares_of_what_was_recorded(waits):
    """A tenth more everywhere is +10 % of each figure, in every sample."""
    found = check(waits, 1.1 * waits)
    for error in (found.mean_error, found.p50_error, found.p95_error):
        assert [error.value, error.low, error.high] == pytest.approx([0.1] * 3)
    assert found.bias.value == pytest.approx(0.1 * waits.mean())
    late = np.abs(0.1 * waits) <= 60
    assert found.within_1m.value == pytest.approx(late.mean())


def test_an_interval_holds_what_other_stretches_of_time_would_show(waits):
    """Errors that come in stretches are less sure than as many errors of single jobs."""
    noise = np.where(np.arange(1200) // 150 % 2, 300.0, -300.0)
    stretches = check(waits, waits + noise).bias
    single = check(waits, waits + np.random.default_rng(1).permutation(noise)).bias
    assert stretches.low < 0 < stretches.high
    assert stretches.high - stretches.low > 2 * (single.high - single.low)


def test_no_correlation_where_all_waits_are_the_same(waits):
    """It is none, and the other figures are there."""
    found = check(np.zeros(50), waits[:50])
    assert found.correlation is None
    assert found.recorded_mean == 0.0


def test_hours_of_the_day(waits):
    """Each hour has the jobs that arrived in it, on whatever day."""
    at = np.arange(1200) * 300.0
    hours = by_hour(at, waits, 1.2 * waits)
    assert [one.hour for one in hours] == list(range(24))
    assert sum(one.check.jobs for one in hours) == 1200
    of_five = waits[at // 3600 % 24 == 5]
    assert hours[5].check.recorded_mean == pytest.approx(of_five.mean())
    assert hours[5].check.mean_error.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("off", "repetitions", "believable", "says"),
    [
        (0.02, None, True, "each job: mean wait 10m31s where 10m31s was recorded"),
        (0.1, None, False, "rough: ±10 %: the error per job is 1m3s, allowed: 3 % of 10m31s; "),
        # 3 % of the mean beyond what its repetitions differ by
        (0.1, 0.08, True, "on average, not job by job: mean wait 10m31s"),
        (0.1, 0.06, False, "rough: ±10 %: the error per job is 1m3s"),
    ],
)
def test_jobs_that_wait_as_long_only_on_average(waits, off, repetitions, believable, says):
    """A large error per job is said, and believed only where the twin differs from itself so."""
    signs = np.where(np.arange(1200) % 2, 1.0, -1.0)
    recorded, mean = waits + off * waits.mean() * signs, waits.mean()
    if repetitions is None:
        found = check(recorded, waits)
    else:
        others = [waits + share * mean * np.roll(signs, 1) for share in (repetitions, 0.01)]
        found = check_of_draws(recorded, [waits, *others], 0)
        assert found.drawn_per_job is not None
        assert found.drawn_per_job.high == pytest.approx(repetitions * mean)
    assert found.share_per_job == pytest.approx(off, rel=0.01)
    told = verdict_of(found, [])
    assert (told.grade in BELIEVABLE) == believable
    assert told.text.startswith(says)
    assert f" off per job, {100 * off:.1f} % of the mean" in told.text
    assert ("off each other per job" in told.text) == (repetitions is not None)


def test_no_step_in_what_is_allowed(waits):
    """5 s per job were allowed of a mean of 29 s, and 0.9 s of one of 31 s: good twins failed."""
    noise = np.where(np.arange(1200) % 2, 3.0, -3.0)
    for mean in (29.0, 31.0, 118.0):
        recorded = waits * mean / waits.mean() + 10.0
        assert verdict_of(check(recorded, recorded + noise), []).grade == "each job", mean
    off = verdict_of(check(recorded, recorded + 7.0), [])
    assert off.grade == "rough"
    assert "the mean is off by 7s, allowed: 5 % of 2m8s" in off.text


def test_a_pool_that_waits_for_something_else_is_none_however_near():
    """Its twin waits for slots, so that it waits as long is chance, and more slots help nothing."""
    recorded = np.full(100, 600.0)
    capped = Flag("cap", "a cap of 2 at once on name e2e explains 92%")
    for flag, grade in ((capped, "none"), (Flag("hidden order", "of 9%"), "rough")):
        told = verdict_of(check(recorded, recorded), [flag])
        assert told.grade == grade
        assert f": {flag.text}; what would help: " in told.text
    small = Flag("cap", capped.text, small=True)
    assert verdict_of(check(recorded, recorded), [small]).grade == "each job"


def test_a_mean_that_another_repetition_has(waits):
    """Where repetitions of the twin differ by more than 5 %, the records may be one of them."""
    draws = [waits, 1.2 * waits, 0.8 * waits]
    assert not check(1.08 * waits, waits).mean_and_p95_hold
    assert check_of_draws(1.08 * waits, draws, 0).mean_and_p95_hold
    # twice the limits at most, if no losses are drawn
    assert not check_of_draws(1.15 * waits, draws, 0).mean_and_p95_hold
    assert check_of_draws(1.15 * waits, draws, 0, is_random=True).mean_and_p95_hold
    assert not check_of_draws(1.4 * waits, draws, 0, is_random=True).mean_and_p95_hold
    assert median_place(draws) == 0
    spread = 0.2 * waits.mean(), 0.2 * np.quantile(waits, 0.95)
    assert check_of_draws(waits, draws, 0).spread == pytest.approx(spread, rel=0.06)
    assert check(waits, waits).spread == (0.0, 0.0)
