"""The Celery app of a builder host, which consumes what the scheduler writes and refuses the rest.

Every job is dispatched by one Celery message to the queue of the host that plays its builder; the
queue holds only what that host's free slots take at once. The farm records attempts itself and
resends lost commands, so messages need no acknowledgement (``no_ack``), no visibility time-out and
no result backend.
"""

from __future__ import annotations

from celery import Celery
from kombu import Exchange, Queue
from redis.connection import parse_url

from farm.live.redis.keys import Keys, queue_name
from workers.redis_transport import RefusedMessages, host_transport


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
        worker_consumer="workers.consumer:HostConsumer",
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
