"""Which release a process is of, as a metric."""

from __future__ import annotations

from importlib import metadata

from farm.metrics.series import Labels


def build_info() -> dict[Labels, float]:
    """Return the values of ``farm_build_info``: 1, labelled with the version."""
    return {(_version(),): 1.0}


def _version() -> str:
    try:
        return metadata.version("build-farm-emulator")
    except metadata.PackageNotFoundError:
        return "unknown"
