"""Quotas and streaks: which hosts are reliable enough for urgent jobs."""

from __future__ import annotations

import msgspec

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


def after_valid(host: HostAppVersion, *, replicated: bool = True) -> HostAppVersion:
    """A result was validated: one job more a day (beyond the quota too), the streak grows."""
    streak = host.consecutive_valid + (1 if replicated else 0)
    jobs = host.max_jobs_per_day + 1
    return _replace(host, max_jobs_per_day=jobs, consecutive_valid=streak)


def is_reliable(
    host: HostAppVersion, quota: int, turnaround_limit: float, *, odd_platform: bool = False
) -> bool:
    """Return whether urgent jobs may go there: a streak of ten, full quota, and quick if known."""
    if host.consecutive_valid < CONSECUTIVE_VALID_RELIABLE or host.max_jobs_per_day < quota:
        return False
    limit = turnaround_limit * (ODD_PLATFORM_FACTOR if odd_platform else 1.0)
    return host.turnaround.n <= MIN_HOST_SAMPLES or host.turnaround.avg <= limit
