"""Quotas, streaks and trust: how many jobs a host may have, and which results are trusted."""

from __future__ import annotations

import msgspec

from farm.upstream.boinc.averages import HOST_AVERAGING, updated_variance
from farm.upstream.boinc.claims import MIN_HOST_SAMPLES
from farm.upstream.boinc.records import HostAppVersion

CONSECUTIVE_VALID_RELIABLE = 10
#: odd platforms may be this much slower and still count as reliable
ODD_PLATFORM_FACTOR = 1.8

_replace = msgspec.structs.replace


def after_success(host: HostAppVersion, quota: int) -> HostAppVersion:
    """A success was reported (not yet validated): its daily limit doubles, up to the quota."""
    jobs = host.max_jobs_per_day
    return _replace(host, max_jobs_per_day=min(2 * jobs, quota) if jobs < quota else jobs)


def after_failure(host: HostAppVersion, quota: int) -> HostAppVersion:
    """A failure or time-out was reported: one job less a day (at least one), the streak ends."""
    jobs = max(1, min(host.max_jobs_per_day, quota) - 1)
    return _replace(host, max_jobs_per_day=jobs, consecutive_valid=0)


def after_timeout(host: HostAppVersion, quota: int, delay_bound: float) -> HostAppVersion:
    """A job did not come back: a failure, whose turnaround counts as the whole bound."""
    turnaround, _ = updated_variance(host.turnaround, delay_bound, HOST_AVERAGING)
    return _replace(after_failure(host, quota), turnaround=turnaround)


def after_valid(host: HostAppVersion, *, replicated: bool = True) -> HostAppVersion:
    """A result was validated: one job more a day (beyond the quota too), the streak grows."""
    streak = host.consecutive_valid + (1 if replicated else 0)
    jobs = host.max_jobs_per_day + 1
    return _replace(host, max_jobs_per_day=jobs, consecutive_valid=streak)


def after_invalid(host: HostAppVersion, quota: int) -> HostAppVersion:
    """A result was invalid: the streak ends; one job less a day, if it was above the quota."""
    jobs = host.max_jobs_per_day
    return _replace(host, consecutive_valid=0, max_jobs_per_day=jobs - 1 if jobs > quota else jobs)


def daily_limit(
    host: HostAppVersion, *, ncpus: int = 1, gpus: int = 0, gpu_multiplier: int = 1
) -> int:
    """Return how many jobs a day the host may get.

    A host that is down to one gets one, however many processors it has.
    """
    jobs = host.max_jobs_per_day
    if jobs == 1:
        return 1
    return jobs * gpus * gpu_multiplier if gpus else jobs * ncpus


def is_reliable(
    host: HostAppVersion, quota: int, turnaround_limit: float, *, odd_platform: bool = False
) -> bool:
    """Return whether urgent jobs may go there: a streak of ten, full quota, and quick if known."""
    if host.consecutive_valid < CONSECUTIVE_VALID_RELIABLE or host.max_jobs_per_day < quota:
        return False
    limit = turnaround_limit * (ODD_PLATFORM_FACTOR if odd_platform else 1.0)
    return host.turnaround.n <= MIN_HOST_SAMPLES or host.turnaround.avg <= limit


def is_trusted(host: HostAppVersion, uniform_draw: float) -> bool:
    """Return whether one result needs no replica; the draw (0 to 1) is the caller's."""
    streak = host.consecutive_valid
    return streak >= CONSECUTIVE_VALID_RELIABLE and uniform_draw > 1.0 / streak


def average_turnaround(old: float, new: float) -> float:
    """Return the host's average turnaround after one more; the first (old is 0) is taken whole."""
    return 0.7 * old + 0.3 * new if old else new
