"""Invalid messages on a host's queue: counted, logged occasionally, dropped.

The heartbeat shows the scheduler which commands were not carried out; it resends them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from celery.utils.log import get_task_logger

log = get_task_logger(__name__)

#: real seconds between two lines of the log
LOG_INTERVAL = 60.0


class RefusedMessages:
    """Counts them; ``tell`` is called for each (metrics)."""

    def __init__(self, on_refused: Callable[[], None] | None = None) -> None:
        self.count = 0
        self._on_refused = on_refused
        self._logged = 0
        self._logged_at = float("-inf")

    def add(self, why: object, *, trace: bool = False) -> None:
        """Drop a message; ``trace``: log the traceback, because it is a defect of the host."""
        self.count += 1
        if self._on_refused is not None:
            self._on_refused()
        now = time.monotonic()
        if now - self._logged_at >= LOG_INTERVAL:
            since = self.count - self._logged
            self._logged, self._logged_at = self.count, now
            log.error("refused %d messages, the last: %.500s", since, why, exc_info=trace)
