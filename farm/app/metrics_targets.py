"""How ``farm up`` lets a Prometheus watch all of its processes: ports, and files that name them."""

from __future__ import annotations

from pathlib import Path

from farm.metrics.exporter import MetricsPlace, MetricsServer


def targets_of(folder: Path) -> Path:
    """Return where the processes of the folder's farm say where they serve metrics."""
    return folder / "targets"


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
    """Return what the process that keeps the farm up is told about its metrics."""
    if place.port is None:
        return []
    return [f"--metrics-port={place.port}", f"--metrics-address={place.address}"]


def service_options(place: MetricsPlace, port: int | None = None) -> list[str]:
    """Return what a service is told; ``port``: another one than was asked for."""
    if place.port is None:
        return []
    used = MetricsPlace(place.port if port is None else port, place.address)
    return [*own_options(used), f"--metrics-targets={place.targets}"]
