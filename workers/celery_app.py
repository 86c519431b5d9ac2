"""The Celery app of a builder host, which consumes what the scheduler writes and refuses the rest.

Every job is dispatched by one Celery message to the queue of the host that plays its builder; the
queue holds only what that host's free slots take at once. The farm records attempts itself and
resends lost commands, so messages need no acknowledgement (``no_ack``), no visibility time-out and
no result backend. Nor gossip, mingle, events and heartbeats between workers: they cost messages,
and a second at start-up, and the farm has its own heartbeat, which contains more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import ClassVar

from celery import Celery
from celery.utils.log import get_task_logger
from celery.worker.consumer import Consumer
from celery.worker.state import maybe_shutdown
from kombu import Connection, Exchange, Queue
from kombu.transport import redis
from redis.connection import parse_url

from farm.live.redis.keys import Keys, queue_name

log = get_task_logger(__name__)
connection_log = logging.getLogger("workers.connection")

#: real seconds between two lines of the log about refused messages
LOG_INTERVAL = 60.0
#: real seconds between two tries to reach the server: the first pause, and the longest
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
#: … and before the next, where it answers and refuses: Celery calls five in a second a breakdown
ERROR_PAUSE = 0.3
#: real seconds in which Celery logs the same message only once
QUIET_TIME = 600.0


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
                connection_log.error("the Redis server cannot be used: %s", error)
            away = True

        # a host that is to end does not wait for a server that has just gone
        maybe_shutdown()
        connection = conn.ensure_connection(
            on_error,
            interval_start=FIRST_PAUSE,
            interval_step=FIRST_PAUSE,
            interval_max=LONGEST_PAUSE,
            callback=maybe_shutdown,
        )
        if away:
            connection_log.warning("the Redis server can be used again")
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


def celery_app(url: str, keys: Keys, host: str, refused: RefusedMessages | None = None) -> Celery:
    """Return the Celery app that consumes this host's queue; it counts what it cannot read."""
    app = Celery("farm", set_as_current=False)
    app.refused = refused or RefusedMessages()
    app.conf.update(
        broker_url=url,
        broker_use_ssl=_tls_options(url),
        broker_transport=host_transport(app.refused),
        result_backend=None,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_send_sent_event=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_prefetch_multiplier=1,
        worker_pool="solo",
        worker_concurrency=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_consumer="workers.celery_app:HostConsumer",
        # no task is ever acknowledged late: set only so that Celery does not ask
        worker_cancel_long_running_tasks_on_connection_loss=True,
        # a server that answers with an error (its disk is full, it became a replica) may recover
        broker_channel_error_retry=True,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=3,
        broker_transport_options={
            "global_keyprefix": keys.celery,
            "client_name": "farm-celery",
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            # how long one BRPOP waits
            "polling_interval": 5,
            "visibility_timeout": 24 * 3600,
            "priority_steps": [0],
        },
        task_create_missing_queues=False,
    )
    name = queue_name(host)
    queue = Queue(name, Exchange("", type="direct"), routing_key=name, no_ack=True)
    app.conf.task_queues = [queue]
    app.conf.task_default_queue = name
    return app


def _tls_options(url: str) -> dict[str, object] | None:
    """Return the TLS options of a rediss:// URL; without any, kombu would connect in plain text."""
    if not url.startswith("rediss://"):
        return None
    parsed = parse_url(url)  # type: ignore[no-untyped-call]
    options = {key: value for key, value in parsed.items() if key.startswith("ssl_")}
    return {"ssl_cert_reqs": "required", **options}
