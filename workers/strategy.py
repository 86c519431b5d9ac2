"""How a builder host executes its tasks: in the consumer, at once, without ceremony.

Celery's own strategy wraps each message in a request, hands it to the pool, traces it and
acknowledges it. Our tasks only note a command, and our queues need no acknowledgement; leaving
all that out halves what a job costs a host (``Task.Strategy`` is Celery's place for it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery, Task
from celery.utils.log import get_task_logger

log = get_task_logger(__name__)


def at_once(task: Task, app: Celery, consumer: Any) -> Callable[..., None]:  # noqa: ARG001
    """Return what the consumer calls for each message of this task (Celery's signature).

    A message that is not JSON makes the consumer refuse it (ContentDisallowed, DecodeError); one
    that does not hold arguments, or an error in the task, is logged. Neither stops the host.
    """

    def receive(message: Any, payload: Any, *_: Any) -> None:  # noqa: ARG001
        body = message.payload
        try:
            args, kwargs, _embed = body
            task.run(*args, **kwargs)
        except Exception:
            log.exception("task %s failed", task.name)

    return receive
