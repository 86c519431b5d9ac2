"""How a builder host executes its tasks: in the consumer, at once, without ceremony.

Celery's own strategy wraps each message in a request, hands it to the pool, traces it and
acknowledges it. Our tasks only note a command, and our queues need no acknowledgement; leaving
all that out halves what a job costs a host (``Task.Strategy`` is Celery's place for it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery, Task

from farm.live.wire.messages import MessageError


def at_once(task: Task, app: Celery, consumer: Any) -> Callable[..., None]:  # noqa: ARG001
    """Return what the consumer calls for each message of this task (Celery's signature).

    A message that is not JSON makes the consumer refuse it (ContentDisallowed, DecodeError); one
    that does not hold arguments, or an error in the task, is refused here. Neither stops the host.
    """

    def receive(message: Any, payload: Any, *_: Any) -> None:  # noqa: ARG001
        body = message.payload
        try:
            (command, version), _kwargs, _embed = body
        except (TypeError, ValueError) as error:
            app.refused.add(f"task {task.name}: {error}")
            return
        try:
            task.run(command, version)
        except MessageError as error:
            app.refused.add(error)
        except Exception as error:  # noqa: BLE001 - a defect of ours: the host plays on
            app.refused.add(f"task {task.name}: {error!r}", trace=True)

    return receive
