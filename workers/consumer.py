"""Celery's consumer without what a builder host has no use for.

Gossip, mingle, events and heartbeats between workers cost messages and a second at start-up;
the farm has its own heartbeat, which says more.
"""

from __future__ import annotations

from celery.worker.consumer import Consumer


class HostConsumer(Consumer):
    """Connects, consumes the host's queue, and that is all."""

    class Blueprint(Consumer.Blueprint):
        """The steps of the consumer."""

        default_steps = [  # noqa: RUF012 - Celery's own attribute, read once
            "celery.worker.consumer.connection:Connection",
            "celery.worker.consumer.events:Events",
            "celery.worker.consumer.tasks:Tasks",
            "celery.worker.consumer.consumer:Evloop",
        ]
