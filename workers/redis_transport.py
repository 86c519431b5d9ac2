"""Kombu's Redis transport, made to tolerate any message and to write no bindings."""

from __future__ import annotations

import time
from collections.abc import Callable

from celery.utils.log import get_task_logger
from kombu.transport import redis

log = get_task_logger(__name__)

#: real seconds between two lines of the log about refused messages
LOG_INTERVAL = 60.0


class RefusedMessages:
    """Invalid messages on a host's queue: counted, logged occasionally, dropped.

    The heartbeat shows the scheduler which commands were not carried out; it resends them.
    ``on_refused`` is called for each (metrics).
    """

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


class HostQoS(redis.QoS):  # type: ignore[misc]  # kombu has no types
    """A QoS without acknowledgements, so that no messages need to be restored."""

    def restore_visible(self, *_: object, **__: object) -> None:
        """Do nothing: it would need scripts and keys that all hosts share."""


class HostChannel(redis.Channel):  # type: ignore[misc]  # nor here
    """Reads the host's list. No message goes through an exchange: the scheduler writes the list."""

    QoS = HostQoS

    def _queue_bind(self, *_: object) -> None:
        """Do nothing: a binding would stay in Redis after the host has ended."""

    def close(self) -> None:
        """Close; a read that waits is given up, which could take until its end."""
        if connection := vars(self).get("_in_poll"):
            connection.disconnect()
        super().close()

    def _brpop_read(self, **options: object) -> object:
        try:
            return super()._brpop_read(**options)
        except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or too deep
            self.connection.refused.add(error)
            return True


def host_transport(messages: RefusedMessages) -> type:
    """Return a transport that counts dropped messages in ``refused``."""

    class HostTransport(redis.Transport):  # type: ignore[misc]  # nor here
        """Delivers valid messages, and drops the rest."""

        Channel = HostChannel
        refused = messages

        def register_with_event_loop(self, connection: object, loop: object) -> None:
            super().register_with_event_loop(connection, loop)
            # once a second, for bindings that expire: there are none
            if (timer := getattr(self.cycle, "_binding_expiry_tref", None)) is not None:
                timer.cancel()

        def _deliver(self, message: object, queue: str) -> None:
            try:
                super()._deliver(message, queue)
            except redis.Transport.connection_errors:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the host plays on
                messages.add(f"{type(error).__name__}: {error}")

    return HostTransport
