"""A file that shows whether this host runs a builder, for the readiness probe of its pod."""

from __future__ import annotations

from pathlib import Path

from celery.utils.log import get_task_logger

log = get_task_logger(__name__)


class ReadyFile:
    """A file that exists while the host runs a builder; an empty path disables it."""

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
            log.error("FARM_READY_FILE: %s", error)  # noqa: TRY400 - nothing to trace
