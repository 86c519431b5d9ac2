"""The Celery tasks of a builder host: each hands one command on and returns at once.

No task sleeps or works: an attempt lives in the host's agenda, so that one process plays many
builders and Celery's consumer is always ready for the next command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.utils.log import get_task_logger

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.live.wire.messages import TASK_NAMES, MessageError, Play, Reset, convert_command
from workers.host import BuilderHost

log = get_task_logger(__name__)


def register(app: Celery, host: BuilderHost) -> None:
    """Define the tasks on the app, all of them served by this host."""
    _define(app, StartJob, host.start_attempt)
    _define(app, CancelJob, host.obey)
    _define(app, Play, host.play)
    _define(app, RetireBuilder, host.obey)
    _define(app, LoseBuilder, host.obey)
    _define(app, Reset, host.reset)


def _define(app: Celery, kind: type[Any], obey: Callable[[Any], None]) -> None:
    def task(command: object, version: object = None) -> None:
        try:
            obey(convert_command(command, version, kind))
        except MessageError as error:
            # the scheduler sees by the heartbeat that it was not obeyed
            log.error("refused: %s", error)  # noqa: TRY400 - a trace would say nothing more

    app.task(name=TASK_NAMES[kind], ignore_result=True, Strategy="workers.strategy:at_once")(task)
