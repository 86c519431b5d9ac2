"""Where the processes of ``farm up`` serve metrics, and how each of them is told."""

from __future__ import annotations

from pathlib import Path

from farm.app.long_running.farm_place import targets_of
from farm.metrics.exporter import MetricsPlace, MetricsServer


def metrics_place(folder: Path, port: int | None, address: str) -> MetricsPlace:
    """Return where the folder's farm serves metrics, if a port was named.

    Raises InputError for one that cannot be had: now, not in a service's log.
    """
    if port is None:
        return MetricsPlace()
    if port:
        with MetricsServer(dict, port, address):
            pass
    return MetricsPlace(port, address, targets_of(folder))


def own_options(place: MetricsPlace) -> list[str]:
    """Return the options on metrics for the farm's daemon."""
    if place.port is None:
        return []
    return [f"--metrics-port={place.port}", f"--metrics-address={place.address}"]


def service_options(place: MetricsPlace, port: int | None = None) -> list[str]:
    """Return the options on metrics for a service; ``port`` replaces the requested one."""
    if place.port is None:
        return []
    used = MetricsPlace(place.port if port is None else port, place.address)
    return [*own_options(used), f"--metrics-targets={place.targets}"]
