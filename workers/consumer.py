"""Celery's consumer without what a builder host has no use for.

Gossip, mingle, events and heartbeats between workers cost messages, and a second at start-up;
the farm has its own heartbeat, which says more.
"""

from __future__ import annotations

from typing import Any

from celery.worker.consumer import Consumer


class HostConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Connects, consumes the host's queue, and that is all; what it cannot read it drops."""

    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]  # nor here
        """The steps of the consumer (mingle is only there because Tasks asks for it)."""

        default_steps = [  # noqa: RUF012 - Celery's own attribute, read once
            "celery.worker.consumer.connection:Connection",
            "celery.worker.consumer.events:Events",
            "celery.worker.consumer.tasks:Tasks",
            "celery.worker.consumer.consumer:Evloop",
        ]

    def __init__(self, *args: Any, worker_options: dict[str, Any] | None = None, **more: Any):
        options = dict(worker_options or {}, without_mingle=True, without_heartbeat=True)
        super().__init__(*args, worker_options=options, **more)

    def on_unknown_message(self, body: object, message: object) -> None:  # noqa: ARG002
        """Drop what has no task (Celery would log all of it, each time)."""
        self.app.refused.add("a message without a task")

    def on_unknown_task(self, body: object, message: object, exc: object) -> None:  # noqa: ARG002
        """Drop what asks for a task that is none of ours."""
        self.app.refused.add(f"unknown task {exc}")

    def on_invalid_task(self, body: object, message: object, exc: object) -> None:  # noqa: ARG002
        """Drop what is of another form, or of a content type that is not accepted."""
        self.app.refused.add(exc)

    def on_decode_error(self, message: object, exc: object) -> None:  # noqa: ARG002
        """Drop what cannot be decoded."""
        self.app.refused.add(exc)
