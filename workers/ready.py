"""Shows by a file whether this host plays anybody: what a readiness probe of its pod looks for."""

from __future__ import annotations

from pathlib import Path

from celery.utils.log import get_task_logger

log = get_task_logger(__name__)


class ReadyFile:
    """A file that is there as long as the host plays a builder; an empty path: none."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._shown: bool | None = None

    def show(self, *, playing: bool) -> None:
        """Make it so. What hinders that is logged, and no more: the host plays on."""
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
