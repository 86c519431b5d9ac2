"""Normalisation of an app's versions among themselves: ``pfc_scale``."""

from __future__ import annotations

from collections.abc import Sequence

from farm.upstream.boinc.claims import MIN_VERSION_SAMPLES
from farm.upstream.boinc.records import AppVersion

#: a GPU's mean counts this much if there is no CPU version to compare with
DEFAULT_GPU_SCALE = 0.1


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
