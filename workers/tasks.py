"""The Celery tasks of a builder host: each passes on one command and returns immediately.

No task sleeps or works: an attempt lives in the host's agenda, so that one process plays many
builders and Celery's consumer is always ready for the next command. So tasks are executed directly
in the consumer: Celery's own strategy wraps each message in a request, hands it to the pool, traces
it and acknowledges it, which doubles what a job costs a host (``Task.Strategy`` is Celery's place
for another one); the queues need no acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery, Task

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.live.wire.messages import TASK_NAMES, MessageError, Play, Reset, convert_command
from farm.live.wire.report_checks import flaw_of_message
from workers.host import BuilderHost


def register(app: Celery, host: BuilderHost) -> None:
    """Define the tasks on the app, all of them served by this host."""
    _define(app, StartJob, host.start_attempt)
    _define(app, Play, host.play)
    _define(app, Reset, host.reset)
    for kind in (CancelJob, RetireBuilder, LoseBuilder):
        _define(app, kind, host.obey)


def _define(app: Celery, kind: type[Any], obey: Callable[[Any], None]) -> None:
    def task(command: object, version: object) -> None:
        found = convert_command(command, version, kind)
        if (flaw := flaw_of_message(found)) is not None:
            raise MessageError(flaw)
        obey(found)

    app.task(name=TASK_NAMES[kind], ignore_result=True, Strategy="workers.tasks:at_once")(task)


def at_once(task: Task, app: Celery, consumer: object) -> Callable[..., None]:
    """Return what the consumer calls for each message of this task (Celery's signature).

    A message that is not JSON makes the consumer refuse it (ContentDisallowed, DecodeError); one
    that does not hold arguments, or an error in the task, is refused here. Neither stops the host.
    """

    def receive(message: Any, payload: object, *_: object) -> None:
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
        except Exception as error:  # noqa: BLE001 - a defect of the host, which continues
            app.refused.add(f"task {task.name}: {error!r}", trace=True)

    return receive
