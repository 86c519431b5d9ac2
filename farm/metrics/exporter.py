"""What Prometheus scrapes: readings as metric families, over a small HTTP server."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from farm.core.errors import InputError
from farm.metrics.catalogue import CATALOGUE
from farm.metrics.series import HistogramValue, Readings
from farm.metrics.targets import Target, host_and_port

log = logging.getLogger("farm.metrics")

LOOPBACK = "127.0.0.1"
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
#: seconds for which a connection may say nothing
SILENCE_ALLOWED = 10.0
#: connections at the same time: a thread and a descriptor each, of the process that serves
MOST_CONNECTIONS = 16


_FAMILIES: Mapping[str, Callable[..., Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class ReadingsCollector(Collector):
    """Turns the newest readings into families; a frozen value, so no writer is held up."""

    def __init__(self, read: Callable[[], Readings]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each metric that has a value, at each scrape."""
        for name, values in self._read().items():
            if values:
                metric = CATALOGUE[name]
                family = _FAMILIES[metric.kind](name, metric.help, labels=metric.labels)
                for labels, value in values.items():
                    if isinstance(value, HistogramValue):
                        family.add_metric(labels, value.cumulative(), value.total)
                    else:
                        family.add_metric(labels, value)
                yield family


def registry_of(read: Callable[[], Readings], *, process: bool = True) -> CollectorRegistry:
    """Return a new registry for these readings, and for the resources used by the process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingsCollector(read))
    if process:
        ProcessCollector(registry=registry)
    return registry


class _Request(WSGIRequestHandler):
    timeout = SILENCE_ALLOWED

    def log_message(self, *_: object) -> None:
        """Write nothing: a scrape is no news."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers a bounded number of requests at once: of more, the oldest is cut off."""

    daemon_threads = True
    request_queue_size = 8 * MOST_CONNECTIONS  # who waits to be accepted takes nothing of ours

    def __init__(self, address: str, port: int) -> None:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        self.address_family = found[0][0]
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__((address, port), _Request)

    def process_request(self, request: Any, client_address: object) -> None:
        """Begin to answer; called by the thread that accepts."""
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                self._cut_off(next(iter(self._open)))
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection; called by the thread that answered."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, _: object, client_address: object) -> None:
        """Pass over a client that went away or was cut off."""
        log.debug("a request from %s ended", client_address, exc_info=True)

    def server_close(self) -> None:
        """Let go of the port, and of who is still connected."""
        super().server_close()
        with self._lock:
            for request in list(self._open):
                self._cut_off(request)

    def _cut_off(self, request: socket.socket) -> None:
        del self._open[request]
        with contextlib.suppress(OSError):  # it has ended by itself
            request.shutdown(socket.SHUT_RDWR)


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
        self._ends = contextlib.ExitStack()

    @property
    def url(self) -> str:
        """Where to scrape."""
        return f"http://{host_and_port(self.address, self.port)}/metrics"

    def __enter__(self) -> Self:
        """Begin to serve; raises InputError for a port or a file that cannot be had.

        A disk that is full is only logged.
        """
        try:
            server = _Server(self.address, self.port)
        except (OSError, OverflowError) as error:
            raise InputError(
                "--metrics-port (FARM_METRICS_PORT): cannot listen on "
                f"{self.address}:{self.port}: {error}; allowed: a free port, 0 for any"
            ) from None
        server.set_app(make_wsgi_app(self._registry))
        thread = threading.Thread(target=server.serve_forever, name="farm-metrics", daemon=True)
        thread.start()
        for end in (thread.join, server.server_close, server.shutdown):  # the last one first
            self._ends.callback(end)
        self.port = server.server_port
        if self._target is not None:
            self._write_target(self._target)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and let go of the port."""
        self._ends.close()

    def _write_target(self, target: Target) -> None:
        try:
            target.write(self.address, self.port)
            self._ends.callback(target.remove)
        except OSError as error:
            if error.errno in DISK_FULL:  # better without metrics than without a scheduler
                log.warning("Prometheus will not find this process: %s: %s", target.path, error)
                return
            self._ends.close()
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
