"""The Prometheus metrics of a builder host, and their server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from celery.utils.log import get_task_logger

from farm.core.errors import InputError
from farm.live.settings import LiveSettings
from farm.metrics.service import HostMetrics
from farm.metrics.targets import host_target

if TYPE_CHECKING:
    from farm.metrics.exporter import MetricsServer

log = get_task_logger(__name__)


class HostMetering:
    """Counts always; serves between ``open`` and ``close`` if there is a port or a folder."""

    def __init__(self, settings: LiveSettings) -> None:
        self.metrics = HostMetrics()
        self._settings = settings
        self._server: MetricsServer | None = None

    @property
    def url(self) -> str | None:
        """Where to scrape; None: nowhere."""
        return None if self._server is None else self._server.url

    def open(self) -> None:
        """Start serving. A failure is only logged: the host continues."""
        if not (self._settings.metrics_port or self._settings.metrics_targets):
            return
        try:
            self._server = self._made().__enter__()
        except InputError as error:
            log.error("this host serves no metrics: %s", error)  # noqa: TRY400 - nothing to trace

    def close(self) -> None:
        """Stop serving; no thread is left."""
        server, self._server = self._server, None
        if server is not None:
            server.__exit__(None, None, None)

    def _made(self) -> MetricsServer:
        # its import takes a tenth of the host's start: only if it is wanted
        from farm.metrics.exporter import LOOPBACK, MetricsServer  # noqa: PLC0415

        settings = self._settings
        folder = settings.metrics_targets
        return MetricsServer(
            self.metrics.readings,
            port_of(settings.metrics_port or "0"),
            settings.metrics_address or LOOPBACK,
            host_target(Path(folder), settings.host) if folder else None,
        )


def port_of(text: str) -> int:
    """Return the port that FARM_METRICS_PORT names; raises InputError."""
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise InputError(f"FARM_METRICS_PORT: found {text!r}; allowed: 0 to 65535 (0: any free one)")
