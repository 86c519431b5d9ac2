"""BOINC's rules at their corners: what the worked cases leave out."""

import math
from typing import Any

import pytest

from farm.upstream.boinc import claims, durations, estimates, records
from farm.upstream.boinc.records import App, AppVersion, Average, HostAppVersion, Variance

RULE = records.HOST_AVERAGING


def host(n: float = 50, avg: float = 1.0, **more: Any) -> HostAppVersion:
    """Return a host's record with a number of samples of one average."""
    return HostAppVersion(pfc=Average(n, avg), et=Variance(n, avg), **more)


def test_a_high_sample_is_cut_and_reported() -> None:
    """Ten times the average is the most that counts."""
    assert records.updated(Average(1, 1.0), 11.0, RULE) == (Average(2, 5.5), True)


USAGE = estimates.Usage(peak_flops=10.0, projected_flops=8.0)


def test_a_mean_time_of_zero_hits_the_cap() -> None:
    """1 ÷ 0 is infinite, and 250 times the projected speed is the most."""
    idle = HostAppVersion(et=Variance(11, 0.0))
    speed = estimates.climb_ladder(USAGE, 3.0, idle, None)
    assert speed == estimates.Speed(math.inf, "host_app_version")
    speed = estimates.capped(speed, USAGE.projected_flops)
    assert speed == estimates.Speed(2000.0, "host_app_version", capped=True)


def test_the_speed_can_come_from_peak_counts() -> None:
    """The project may be configured so."""
    rules = estimates.LadderRules(from_host_pfc=True)
    speed = estimates.climb_ladder(USAGE, 3.0, host(11, 4.0), None, rules)
    assert speed.flops == pytest.approx(2.5)


def test_the_largest_rank_wins_the_first_on_a_tie() -> None:
    """Strictly larger: an equal later version does not displace the earlier one."""
    slow, fast = (
        estimates.VersionCandidate(usage=estimates.Usage(peak_flops=1.0, projected_flops=x))
        for x in (1.0, 2.0)
    )
    assert estimates.choose([slow, fast, fast], 3.0) == (1, estimates.Speed(3.0, "none"))
    assert estimates.choose([], 3.0) is None


def test_a_version_that_never_worked_is_usually_penalised() -> None:
    """No samples, a limit of one a day, no streak: a hundredth, 99 times in a hundred."""
    broken = HostAppVersion(max_jobs_per_day=1)
    candidate = estimates.VersionCandidate(usage=USAGE, host=broken, uniform_draw=0.5)
    spared = estimates.VersionCandidate(usage=USAGE, host=broken, uniform_draw=0.01)
    streak = estimates.VersionCandidate(
        usage=USAGE, host=HostAppVersion(max_jobs_per_day=1, consecutive_valid=1), uniform_draw=0.5
    )
    assert estimates.compare(candidate, 3.0).rank == pytest.approx(0.08)
    assert estimates.compare(spared, 3.0).rank == 8.0
    assert estimates.compare(streak, 3.0).rank == 8.0


def test_the_random_factor_shrinks_with_samples_and_has_a_floor() -> None:
    """1 + factor x draw ÷ n, a tenth at least; off without a factor."""
    known = estimates.VersionCandidate(usage=USAGE, host=host(4), normal_draw=-2.0)
    new = estimates.VersionCandidate(usage=USAGE, normal_draw=-2.0)
    assert estimates.compare(known, 3.0, random_factor=1.0).factor == 0.5
    assert estimates.compare(new, 3.0, random_factor=1.0).factor == 0.1
    assert estimates.compare(new, 3.0).factor == 1.0


def result(**more: Any) -> claims.Result:
    """Return a result whose claim is exactly its size."""
    given = {"elapsed": 4.0, "flops": 10.0, "size": 40.0, **more}
    return claims.Result(**given)


def test_an_insane_ratio_moves_times_only() -> None:
    """Peak counts more than 10,000 times off are ignored; the time is used."""
    found = claims.claim(result(size=4e-4), host(), AppVersion(), App())
    assert (found.updates_pfc, found.updates_et) == (False, True)
    edge = claims.claim(result(size=4e-3), host(), AppVersion(), App())
    assert edge.updates_pfc


def test_without_a_host_record_the_estimate_is_claimed() -> None:
    """And nothing is learned."""
    found = claims.claim(result(), None, AppVersion(), App(min_avg_pfc=2.0))
    assert (found.pfc, found.mode, found.updates_et) == (80.0, "estimate", False)


def test_a_size_of_zero_has_no_guard() -> None:
    """As upstream: the samples are infinite, the peak count is ignored."""
    found = claims.claim(result(size=0.0), host(), AppVersion(), App())
    assert found.et_sample == math.inf
    assert not found.updates_pfc


def test_take_over_prefers_the_newest_and_keeps_to_its_kin() -> None:
    """Same app, platform and plan class; nothing when there is a record already."""
    key = records.VersionKey
    held = [key("a", "x", "", (1,)), key("a", "x", "", (10,)), key("a", "y", "", (99,))]
    assert records.predecessor(held, key("a", "x", "", (11,))) == key("a", "x", "", (10,))
    assert records.predecessor(held, key("a", "x", "", (1,))) is None
    assert records.predecessor(held, key("a", "x", "mt", (1,))) is None


def test_kill_limit() -> None:
    """Under two minutes cannot be meant: twelve hours."""
    assert durations.time_limit(1200.0, 10.0) == 120.0
    assert durations.time_limit(1199.0, 10.0) == 12 * 3600


@pytest.mark.parametrize(
    ("elapsed", "factor"),
    [(300.0, 3.0), (110.0, 1.01), (5.0, 0.9905), (50.0, 0.95), (1e6, 100.0)],
)
def test_old_clients_correction(elapsed: float, factor: float) -> None:
    """Up at once, down slowly, hardly at all for outliers, within 0.01 and 100."""
    assert durations.corrected_factor(1.0, elapsed, 100.0) == pytest.approx(factor)


def test_an_urgent_job_has_a_shortened_bound() -> None:
    """By the reduction asked for, which is raised to twice the estimate."""
    assert durations.delay_bounds(100.0, 0.5, 30.0) == (60, 100)
    assert durations.delay_bounds(100.0, 0.01, 30.0) == (100, 100)


def test_quotas() -> None:
    """Doubled by success up to the quota, less by failure down to one, beyond it by validation."""
    one = HostAppVersion(max_jobs_per_day=1)
    assert records.after_success(one, 5).max_jobs_per_day == 2
    assert records.after_success(HostAppVersion(max_jobs_per_day=4), 5).max_jobs_per_day == 5
    assert records.after_success(HostAppVersion(max_jobs_per_day=9), 5).max_jobs_per_day == 9
    assert records.after_failure(one, 5).max_jobs_per_day == 1
    assert records.after_failure(HostAppVersion(max_jobs_per_day=9), 5).max_jobs_per_day == 4
    assert records.after_valid(HostAppVersion(max_jobs_per_day=5)).max_jobs_per_day == 6


def test_streaks() -> None:
    """They end with any failure and grow by replicated results only."""
    streak = HostAppVersion(consecutive_valid=9)
    assert records.after_valid(streak).consecutive_valid == 10
    assert records.after_valid(streak, replicated=False).consecutive_valid == 9
    assert records.after_failure(streak, 5).consecutive_valid == 0


def test_reliable_hosts() -> None:
    """A streak of ten, the full quota, and quick enough."""
    good = HostAppVersion(consecutive_valid=10, max_jobs_per_day=5, turnaround=Variance(11, 150.0))
    assert records.is_reliable(good, 5, 150.0)
    assert not records.is_reliable(good, 6, 150.0)
    assert not records.is_reliable(good, 5, 100.0)
    assert records.is_reliable(good, 5, 100.0, odd_platform=True)
