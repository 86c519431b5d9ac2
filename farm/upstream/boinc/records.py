"""BOINC's records, and the running averages in them.

There is a record for each (host, app version), for each app version on all hosts, and for each app.
A host's record has its quota and its streak too, by which it is reliable enough for urgent jobs.

The symbols are the original's:

``et``         elapsed time: seconds ÷ estimated size. 1 ÷ its average is the speed that the host
               really had, so it is the best thing to know of a host and a version
``pfc``        peak flop count: seconds x the host's peak speed ÷ estimated size. A fast host
               takes less time in proportion, so this is comparable between hosts: the average over
               all of them says how inefficient a version is, or how much larger its jobs are than
               estimated
``pfc_scale``  what a version's ``pfc`` is multiplied with to compare it with other versions of its
               app: the best class of versions has about 1
``n, avg``     the number of samples of an average, and the average itself; ``var`` its variance and
               ``q`` the sum of squared deviations by which Welford's method finds that
"""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

MIN_HOST_SAMPLES = 10
CONSECUTIVE_VALID_RELIABLE = 10
#: odd platforms may be this much slower and still count as reliable
ODD_PLATFORM_FACTOR = 1.8


# --- running averages -----------------------------------------------------------------------------


class Averaging(msgspec.Struct, frozen=True):
    """How an average moves: exact below ``threshold`` samples, then by ``weight``."""

    threshold: float
    weight: float
    #: a sample above ``limit`` x the average is cut down to that
    limit: float


HOST_AVERAGING = Averaging(threshold=20, weight=0.01, limit=10)
VERSION_AVERAGING = Averaging(threshold=100, weight=0.001, limit=10)


class Average(msgspec.Struct, frozen=True):
    """A number of samples and their average."""

    n: float = 0.0
    avg: float = 0.0


class Variance(msgspec.Struct, frozen=True):
    """An average with the (population) variance of its samples; ``q`` is the sum of squares."""

    n: float = 0.0
    avg: float = 0.0
    var: float = 0.0
    q: float = 0.0


def _cut(average: Average | Variance, sample: float, rule: Averaging) -> tuple[float, bool]:
    """Cut a high outlier down. The first sample, and any beside an average of 0, is not cut."""
    top = average.avg * rule.limit
    if average.n != 0 and average.avg != 0 and sample > top:
        return top, True
    return sample, False


def _moved(avg: float, n: float, delta: float, rule: Averaging) -> float:
    """Return the average after its n-th sample; the threshold-th is exponential already."""
    return avg + (delta / n if n < rule.threshold else rule.weight * delta)


def updated(average: Average, sample: float, rule: Averaging) -> tuple[Average, bool]:
    """Return the average after one more sample, and whether the sample was cut.

    A negative sample changes nothing and counts as cut.
    """
    if sample < 0:
        return average, True
    sample, cut = _cut(average, sample, rule)
    n = average.n + 1
    return Average(n, _moved(average.avg, n, sample - average.avg, rule)), cut


def updated_variance(variance: Variance, sample: float, rule: Averaging) -> tuple[Variance, bool]:
    """Return average and variance after one more sample, and whether the sample was cut.

    Below the threshold the variance is Welford's; above, it is exponential with the deviation
    from the *old* average, and ``q`` stays as it was.
    """
    if sample < 0:
        return variance, True
    sample, cut = _cut(variance, sample, rule)
    n = variance.n + 1
    delta = sample - variance.avg
    avg = _moved(variance.avg, n, delta, rule)
    if n < rule.threshold:
        q = variance.q + delta * (sample - avg)
        return Variance(n, avg, q / n, q), cut
    var = variance.var + rule.weight * (delta * delta - variance.var)
    return Variance(n, avg, var, variance.q), cut


def ratio(dividend: float, divisor: float) -> float:
    """Return dividend ÷ divisor as the hardware does: by 0 an infinity, and 0 ÷ 0 not a number."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


# --- records --------------------------------------------------------------------------------------


class HostAppVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One host's history with one app version (anonymous: with one app and resource)."""

    #: peak flop count ÷ estimated size
    pfc: Average = Average()
    #: elapsed seconds ÷ estimated size
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
