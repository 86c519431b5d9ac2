"""BOINC's records: per (host, app version), per app version, and per app.

A host's record has its quota and streak too, by which it is reliable enough for urgent jobs.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from farm.upstream.boinc.averages import (
    VERSION_AVERAGING,
    Average,
    Variance,
    updated,
)

MIN_HOST_SAMPLES = 10
CONSECUTIVE_VALID_RELIABLE = 10
#: odd platforms may be this much slower and still count as reliable
ODD_PLATFORM_FACTOR = 1.8


class HostAppVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One host's history with one app version (anonymous: with one app and resource)."""

    #: peak flop count ÷ estimated size
    pfc: Average = Average()
    #: elapsed seconds ÷ estimated size: 1 ÷ its average is the effective speed
    et: Variance = Variance()
    #: seconds from sending a job to its report
    turnaround: Variance = Variance()
    max_jobs_per_day: int = 0
    consecutive_valid: int = 0


class AppVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The history of an app version on all hosts."""

    pfc: Average = Average()
    #: its efficiency relative to the app's best class of versions; 0: not known yet
    pfc_scale: float = 0.0
    #: ``cpu`` or ``gpu``
    resource: str = "cpu"
    #: samples received but not yet counted
    pending: tuple[float, ...] = ()


class App(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an app as a whole."""

    #: the smaller mean of its classes of versions; 0: not known yet
    min_avg_pfc: float = 0.0


class VersionKey(msgspec.Struct, frozen=True, order=True):
    """Identifies an app version: versions that differ in ``number`` alone succeed each other."""

    app: str
    platform: str = ""
    plan_class: str = ""
    number: tuple[int, ...] = ()


def predecessor(held: Collection[VersionKey], wanted: VersionKey) -> VersionKey | None:
    """Return the version whose record the wanted version takes over (then removed), or None.

    It is the highest number of the same app, platform and plan class. Nothing is taken over when
    the wanted version has a record already. Not for anonymous platforms.
    """
    if wanted in held:
        return None
    kin = [
        key
        for key in held
        if (key.app, key.platform, key.plan_class)
        == (wanted.app, wanted.platform, wanted.plan_class)
    ]
    return max(kin, key=lambda key: key.number, default=None)


def with_pending_counted(version: AppVersion) -> AppVersion:
    """Return the version with its buffered samples taken into its average, in their order."""
    pfc = version.pfc
    for sample in version.pending:
        pfc, _ = updated(pfc, sample, VERSION_AVERAGING)
    return msgspec.structs.replace(version, pfc=pfc, pending=())


# --- quotas and streaks -------------------------------------------------------------------------


def after_success(host: HostAppVersion, quota: int) -> HostAppVersion:
    """A success was reported (not yet validated): its daily limit doubles, up to the quota."""
    jobs = host.max_jobs_per_day
    return msgspec.structs.replace(
        host, max_jobs_per_day=min(2 * jobs, quota) if jobs < quota else jobs
    )


def after_failure(host: HostAppVersion, quota: int) -> HostAppVersion:
    """A failure or time-out was reported: one job less a day (at least one), the streak ends."""
    jobs = max(1, min(host.max_jobs_per_day, quota) - 1)
    return msgspec.structs.replace(host, max_jobs_per_day=jobs, consecutive_valid=0)


def after_valid(host: HostAppVersion, *, replicated: bool = True) -> HostAppVersion:
    """A result was validated: one job more a day (beyond the quota too), the streak grows."""
    streak = host.consecutive_valid + (1 if replicated else 0)
    jobs = host.max_jobs_per_day + 1
    return msgspec.structs.replace(host, max_jobs_per_day=jobs, consecutive_valid=streak)


def is_reliable(
    host: HostAppVersion, quota: int, turnaround_limit: float, *, odd_platform: bool = False
) -> bool:
    """Return whether urgent jobs may go there: a streak of ten, full quota, and quick if known."""
    if host.consecutive_valid < CONSECUTIVE_VALID_RELIABLE or host.max_jobs_per_day < quota:
        return False
    limit = turnaround_limit * (ODD_PLATFORM_FACTOR if odd_platform else 1.0)
    return host.turnaround.n <= MIN_HOST_SAMPLES or host.turnaround.avg <= limit
