"""What Prometheus scrapes: readings as metric families, over a small HTTP server."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self
from wsgiref.simple_server import WSGIServer

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from farm.core.errors import InputError
from farm.metrics.catalogue import CATALOGUE
from farm.metrics.series import HistogramValue, Labels, Readings, Value
from farm.metrics.targets import Target, host_and_port

log = logging.getLogger("farm.metrics")

LOOPBACK = "127.0.0.1"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def families(readings: Readings) -> Iterator[Metric]:
    """Yield a family for each metric that has a value."""
    for name, values in readings.items():
        if values:
            yield _family(name, values)


def _family(name: str, values: Mapping[Labels, Value]) -> Metric:
    metric = CATALOGUE[name]
    if metric.kind == "histogram":
        return _histogram(name, values)
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        if not isinstance(value, HistogramValue):
            family.add_metric(labels, value)
    return family


def _histogram(name: str, values: Mapping[Labels, Value]) -> Metric:
    metric = CATALOGUE[name]
    family = HistogramMetricFamily(name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        if isinstance(value, HistogramValue):
            family.add_metric(labels, value.cumulative(), value.total)
    return family


class ReadingsCollector(Collector):
    """Turns the newest readings into families; a frozen value, so no writer is held up."""

    def __init__(self, read: Callable[[], Readings]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the families (prometheus_client calls this for each scrape)."""
        return families(self._read())


def registry_of(read: Callable[[], Readings], *, process: bool = True) -> CollectorRegistry:
    """Return a new registry for these readings, and for the resources used by the process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingsCollector(read))
    if process:
        ProcessCollector(registry=registry)
    return registry


class MetricsServer:
    """Serves ``/metrics`` from a thread, within its ``with`` block.

    Args:
        read: returns the newest readings; called from the server's threads.
        port: 0 picks a free one (``port`` says which, once the block is entered).
        address: by default only this machine.
        target: the file that says so while it serves.
    """

    def __init__(
        self,
        read: Callable[[], Readings],
        port: int,
        address: str = LOOPBACK,
        target: Target | None = None,
    ) -> None:
        self._target = target
        self._registry = registry_of(read)
        self.port = port
        self.address = address
        self._running: tuple[WSGIServer, threading.Thread] | None = None

    @property
    def url(self) -> str:
        """Where to scrape."""
        return f"http://{host_and_port(self.address, self.port)}/metrics"

    def __enter__(self) -> Self:
        """Begin to serve; raises InputError for a port or a file that cannot be had.

        A disk that is full is only logged.
        """
        try:
            self._running = start_http_server(self.port, self.address, self._registry)
        except (OSError, OverflowError) as error:
            raise InputError(
                "--metrics-port (FARM_METRICS_PORT): cannot listen on "
                f"{self.address}:{self.port}: {error}; allowed: a free port, 0 for any"
            ) from None
        self.port = self._running[0].server_port
        if self._target is not None:
            self._write_target(self._target)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and let go of the port."""
        if self._target is not None:
            self._target.remove()
        if self._running is not None:
            server, thread = self._running
            server.shutdown()
            server.server_close()
            thread.join()
            self._running = None

    def _write_target(self, target: Target) -> None:
        try:
            target.write(self.address, self.port)
        except OSError as error:
            if error.errno in DISK_FULL:  # better without metrics than without a scheduler
                log.warning("Prometheus will not find this process: %s: %s", target.path, error)
                return
            self._target = None
            self.__exit__(None, None, None)
            raise InputError(
                f"--metrics-targets (FARM_METRICS_TARGETS): cannot write {target.path}: "
                f"{error.strerror}; allowed: a folder that can be written to"
            ) from None


class MetricsPlace(msgspec.Struct, frozen=True):
    """Where a command is to serve metrics, and in which folder to say so."""

    port: int | None = None
    address: str = LOOPBACK
    targets: Path | None = None

    @property
    def wanted(self) -> bool:
        """Whether metrics were requested: with a folder to say where, any port does."""
        return self.port is not None or self.targets is not None

    def server(
        self, read: Callable[[], Readings], target: Callable[[Path], Target]
    ) -> MetricsServer:
        """Return what serves these readings there."""
        file = None if self.targets is None else target(self.targets)
        return MetricsServer(read, self.port or 0, self.address, file)
