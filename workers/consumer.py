"""Celery's consumer without the parts that a builder host does not need.

Gossip, mingle, events and heartbeats between workers cost messages, and a second at start-up;
the farm has its own heartbeat, which contains more.
"""

from __future__ import annotations

import logging
import time
from typing import ClassVar

from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from kombu import Connection

log = logging.getLogger(__name__)

#: real seconds between two tries to reach the server: the first pause, and the longest
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
#: … and before the next, where it answers and refuses: Celery calls five in a second a breakdown
ERROR_PAUSE = 0.3
#: real seconds in which Celery logs the same message only once
QUIET_TIME = 600.0


class HostConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Connects and consumes the host's queue, dropping unreadable messages."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]  # nor here
        """The steps of the consumer (mingle is only there because Tasks asks for it)."""

        default_steps: ClassVar = [
            "celery.worker.consumer.connection:Connection",
            "celery.worker.consumer.events:Events",
            "celery.worker.consumer.tasks:Tasks",
            "celery.worker.consumer.consumer:Evloop",
        ]

    def __init__(
        self, *args: object, worker_options: dict[str, object] | None = None, **more: object
    ):
        options = dict(worker_options or {}, without_mingle=True, without_heartbeat=True)
        super().__init__(*args, worker_options=options, **more)
        logging.getLogger("celery.worker.consumer.consumer").addFilter(_Once())

    def ensure_connected(self, conn: Connection) -> Connection:
        """Wait for the server; Celery would retry ever more rarely, and reconnect late."""
        away = False

        def on_error(error: Exception, _: float) -> None:
            nonlocal away
            if not away:
                log.error("the Redis server cannot be used: %s", error)
            away = True

        connection = conn.ensure_connection(
            on_error,
            interval_start=FIRST_PAUSE,
            interval_step=FIRST_PAUSE,
            interval_max=LONGEST_PAUSE,
            callback=maybe_shutdown,
        )
        if away:
            log.warning("the Redis server can be used again")
        return connection

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Pause first: a server may accept connections but refuse commands (its disk is full)."""
        time.sleep(ERROR_PAUSE)
        super().on_connection_error_after_connected(exc)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Pause first, as above."""
        time.sleep(ERROR_PAUSE)
        super().on_connection_error_before_connected(exc)

    def on_unknown_message(self, body: object, message: object) -> None:
        """Drop a message without a task (Celery would log each in full)."""
        self.app.refused.add("a message without a task")

    def on_unknown_task(self, body: object, message: object, exc: object) -> None:
        """Drop a message with an unknown task."""
        self.app.refused.add(f"unknown task {exc}")

    def on_invalid_task(self, body: object, message: object, exc: object) -> None:
        """Drop a message of another form, or of a content type that is not accepted."""
        self.app.refused.add(exc)

    def on_decode_error(self, message: object, exc: object) -> None:
        """Drop a message that cannot be decoded."""
        self.app.refused.add(exc)


class _Once(logging.Filter):
    """Limits the rate of repeated log messages: a server may be in trouble for hours."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message, now = record.getMessage(), time.monotonic()
        if now - self._logged_at.get(message, float("-inf")) < QUIET_TIME:
            return False
        if len(self._logged_at) > 100:
            self._logged_at.clear()
        self._logged_at[message] = now
        return True
