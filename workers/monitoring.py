"""What a builder host shows to others: Prometheus metrics, and a file while it plays a builder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from celery.utils.log import get_task_logger

from farm.core.errors import InputError
from farm.live.settings import LiveSettings
from farm.metrics.service import HostMetrics
from farm.metrics.targets import host_target

log = get_task_logger(__name__)


class HostMetering:
    """Counts always; serves between ``open`` and ``close`` if there is a port or a folder."""

    def __init__(self, settings: LiveSettings) -> None:
        self.metrics = HostMetrics()
        #: where to scrape; None: nowhere
        self.url: str | None = None
        self._settings = settings
        self._serving = ExitStack()

    def open(self) -> None:
        """Start serving. A failure is only logged: the host continues."""
        settings = self._settings
        if not (settings.metrics_port or settings.metrics_targets):
            return
        # its import takes a tenth of the host's start: only if it is wanted
        from farm.metrics.exporter import LOOPBACK, MetricsPlace  # noqa: PLC0415

        folder, address = settings.metrics_targets, settings.metrics_address or LOOPBACK
        try:
            port = port_of(settings.metrics_port or "0")
            place = MetricsPlace(port, address, Path(folder) if folder else None)
            server = place.server(self.metrics.readings, lambda it: host_target(it, settings.host))
            self.url = self._serving.enter_context(server).url
        except InputError as error:
            log.error("this host serves no metrics: %s", error)

    def close(self) -> None:
        """Stop serving; no thread is left."""
        self._serving.close()


def port_of(text: str) -> int:
    """Return the port that FARM_METRICS_PORT names; raises InputError."""
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise InputError(f"FARM_METRICS_PORT: found {text!r}; allowed: 0 to 65535 (0: any free one)")


class ReadyFile:
    """A file for readiness probes that exists while the host plays a builder; empty path: none."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._shown: bool | None = None

    def show(self, *, playing: bool) -> None:
        """Create or delete the file. A failure is only logged: the host continues."""
        if self._path is None or playing == self._shown:
            return
        self._shown = playing
        try:
            if playing:
                self._path.touch()
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.error("FARM_READY_FILE: %s", error)
