"""The Celery tasks of a builder host: each hands one command on and returns at once.

No task sleeps or works: an attempt lives in the host's agenda, so that one process plays many
builders and Celery's consumer is always ready for the next command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery

from farm.core.commands import CancelJob, LoseBuilder, RetireBuilder, StartJob
from farm.live.wire.bounds import flaw_of_command
from farm.live.wire.messages import TASK_NAMES, MessageError, Play, Reset, convert_command
from workers.host import BuilderHost


def register(app: Celery, host: BuilderHost) -> None:
    """Define the tasks on the app, all of them served by this host."""
    _define(app, StartJob, host.start_attempt)
    _define(app, CancelJob, host.obey)
    _define(app, Play, host.play)
    _define(app, RetireBuilder, host.obey)
    _define(app, LoseBuilder, host.obey)
    _define(app, Reset, host.reset)


def _define(app: Celery, kind: type[Any], obey: Callable[[Any], None]) -> None:
    def task(command: object, version: object) -> None:
        found = convert_command(command, version, kind)
        if (flaw := flaw_of_command(found)) is not None:
            raise MessageError(flaw)
        obey(found)

    app.task(name=TASK_NAMES[kind], ignore_result=True, Strategy="workers.strategy:at_once")(task)
