"""What a validated result claims (its peak flop count), and what it teaches the records.

Use it exactly once per valid result: errors, time-outs and invalid results do not touch these
statistics (``records`` has what they do touch).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from farm.upstream.boinc.records import (
    HOST_AVERAGING,
    MIN_HOST_SAMPLES,
    App,
    AppVersion,
    HostAppVersion,
    ratio,
    updated,
    updated_variance,
)

#: samples of a version's average: the ladder and the mean of a class take one with more than these,
#: scales one with as many, as in the original
MIN_VERSION_SAMPLES = 100
#: a host is on probation until this number of its results in a row were valid
CONSECUTIVE_VALID_TO_SCALE = 10
#: a host's claims are raised by at most this factor
HOST_SCALE_CAP = 10.0
#: replaces a benchmark that was not done
AVERAGE_CPU_FLOPS = 4.3e9
#: a client reports exactly this figure when its benchmarks failed
FAILED_BENCHMARK = 1e9
#: peak flop counts outside of this range are ignored: the size was surely wrong
SANE_PFC = (1e-4, 1e4)
#: credit per flop: 200 a day for a machine of 1 GFLOPS
COBBLESTONE_SCALE = 200 / 86400e9
#: a GPU's mean counts this much if there is no CPU version to compare with
DEFAULT_GPU_SCALE = 0.1

Mode = Literal["normal", "approx", "estimate", "invalid"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A finished job as its host reports it, and the job's own figures."""

    elapsed: float
    #: used when an old client reports no elapsed time
    cpu_time: float = 0.0
    #: the speed assumed by the server
    flops: float
    size: float
    size_bound: float = float("inf")
    #: from sending to report, seconds
    turnaround: float = 0.0
    #: the validator's flag that its run time is no measure
    outlier: bool = False
    anonymous: bool = False


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a result claims, and the samples that it gives."""

    raw_pfc: float
    #: 0: the host is not scaled
    host_scale: float
    pfc: float
    mode: Mode
    pfc_sample: float
    et_sample: float
    updates_pfc: bool
    updates_et: bool

    @property
    def credit(self) -> float:
        """The claim in units of credit."""
        return self.pfc * COBBLESTONE_SCALE


def estimated_pfc(size: float, app: App) -> float:
    """Return what a job should claim by default (an average of 0 counts as 1)."""
    return size * (app.min_avg_pfc or 1.0)


def _may_scale(host: HostAppVersion, scale_check: bool) -> bool:
    """Return whether the host's average is one to scale by: known, and not on probation."""
    if scale_check and host.consecutive_valid < CONSECUTIVE_VALID_TO_SCALE:
        return False
    return host.pfc.n >= MIN_HOST_SAMPLES and host.pfc.avg > 0


def host_scale(host: HostAppVersion, version: AppVersion, *, scale_check: bool = False) -> float:
    """Return how much the host differs from the version's mean host, 10 at most; 0: unknown."""
    if not _may_scale(host, scale_check) or version.pfc.n < MIN_VERSION_SAMPLES:
        return 0.0
    return min(HOST_SCALE_CAP, version.pfc.avg / host.pfc.avg)


def _scaled(
    raw: float, host: HostAppVersion, version: AppVersion, scale_check: bool
) -> tuple[float, float, Mode]:
    scale = host_scale(host, version, scale_check=scale_check)
    pfc = raw * (version.pfc_scale or 1.0) * (scale or 1.0)
    return pfc, scale, "normal" if version.pfc_scale and scale else "approx"


def _anonymous_pfc(
    result: Result, raw: float, host: HostAppVersion, app: App, scale_check: bool
) -> float:
    if _may_scale(host, scale_check):
        return raw * (app.min_avg_pfc / host.pfc.avg)
    return estimated_pfc(result.size, app)


def claim(
    result: Result,
    host: HostAppVersion | None,
    version: AppVersion,
    app: App,
    *,
    scale_check: bool = False,
) -> Claim:
    """Return what a valid result claims, given the records before it.

    Without a host record the claim is the estimate and nothing is learned. A speed of 0 or less,
    or exactly that of a failed benchmark, is replaced and makes the result an outlier. With
    ``scale_check`` no host is scaled before a streak of ten valid results, an anonymous one either.
    """
    elapsed = result.elapsed if result.elapsed >= 1e-6 else result.cpu_time
    flops, outlier = result.flops, result.outlier
    if flops <= 0 or flops == FAILED_BENCHMARK:
        flops, outlier = AVERAGE_CPU_FLOPS, True
    raw = elapsed * flops
    sample = ratio(raw, result.size)
    scale = 0.0
    mode: Mode = "approx"
    if host is None:
        pfc, mode = estimated_pfc(result.size, app), "estimate"
        outlier = True
    elif result.anonymous:
        pfc = _anonymous_pfc(result, raw, host, app, scale_check)
    else:
        pfc, scale, mode = _scaled(raw, host, version, scale_check)
    return Claim(
        raw_pfc=raw,
        host_scale=scale,
        pfc=pfc,
        mode=mode,
        pfc_sample=sample,
        et_sample=ratio(elapsed, result.size),
        updates_pfc=not outlier and SANE_PFC[0] <= sample <= SANE_PFC[1],
        updates_et=not outlier,
    )


def clipped(claimed: Claim, size_bound: float, max_credit: float = 0.0) -> Claim:
    """Return the claim within the job's bound and the project's largest credit (0: none).

    Above the largest credit it is ``invalid``: no basis for what its replicas get.
    """
    pfc, mode = min(claimed.pfc, size_bound), claimed.mode
    if max_credit and pfc * COBBLESTONE_SCALE > max_credit:
        pfc, mode = max_credit / COBBLESTONE_SCALE, "invalid"
    return msgspec.structs.replace(claimed, pfc=pfc, mode=mode)


def learned(
    result: Result, claimed: Claim, host: HostAppVersion, version: AppVersion
) -> tuple[HostAppVersion, AppVersion]:
    """Return both records after the result; the version's sample is buffered, not yet counted."""
    replace = msgspec.structs.replace
    if claimed.updates_pfc:
        host = replace(host, pfc=updated(host.pfc, claimed.pfc_sample, HOST_AVERAGING)[0])
        if not result.anonymous:
            version = replace(version, pending=(*version.pending, claimed.pfc_sample))
    if claimed.updates_et:
        et, _ = updated_variance(host.et, claimed.et_sample, HOST_AVERAGING)
        turnaround, _ = updated_variance(host.turnaround, result.turnaround, HOST_AVERAGING)
        host = replace(host, et=et, turnaround=turnaround)
    return host, version


# --- normalisation of versions among themselves -------------------------------------------------


def _class_mean(versions: Sequence[AppVersion], resource: str) -> tuple[int, float]:
    """Return how many versions of the class have more than 100 samples, and their mean."""
    known = [v.pfc for v in versions if v.resource == resource and v.pfc.n > MIN_VERSION_SAMPLES]
    if not known:
        return 0, 0.0
    return len(known), sum(pfc.avg * pfc.n for pfc in known) / sum(pfc.n for pfc in known)


def base_pfc(versions: Sequence[AppVersion]) -> float | None:
    """Return what the versions are compared with; None when too little is known.

    It is the smaller of the two class means; or the CPU mean if two CPU versions are known; or a
    tenth of the GPU mean.
    """
    cpus, cpu_mean = _class_mean(versions, "cpu")
    gpus, gpu_mean = _class_mean(versions, "gpu")
    if cpus and gpus:
        return min(cpu_mean, gpu_mean)
    if cpus >= 2:
        return cpu_mean
    if gpus:
        return gpu_mean * DEFAULT_GPU_SCALE
    return None


def scales(versions: Sequence[AppVersion]) -> tuple[float | None, list[float]]:
    """Return the app's ``min_avg_pfc`` (None: leave it) and each version's ``pfc_scale``.

    A version of exactly 100 samples gets a scale though it is not in the mean. Where too little is
    known the scale stays unchanged.
    """
    base = base_pfc(versions)
    if base is None:
        return None, [version.pfc_scale for version in versions]
    return base, [
        base / version.pfc.avg
        if version.pfc.n >= MIN_VERSION_SAMPLES and version.pfc.avg > 0
        else version.pfc_scale
        for version in versions
    ]
