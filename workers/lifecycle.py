"""Ties a builder host to the life of its Celery worker: up with it, down with it."""

from __future__ import annotations

import os
import signal
import sys
import threading

from celery import Celery
from celery.signals import worker_ready, worker_shutdown

from farm.live.settings import LiveSettings
from workers.host import BuilderHost

#: real seconds between the parent's death and the host's hard end
LAST_CHANCE = 5.0


def bind(app: Celery, settings: LiveSettings) -> BuilderHost:
    """Return the host that starts and ends with this app's worker."""
    host = BuilderHost(settings, os.getpid())

    def up(**_: object) -> None:
        if settings.watch_stdin:
            threading.Thread(target=_watch_parent, name="farm-parent", daemon=True).start()
        host.start()

    def down(**_: object) -> None:
        host.close()

    worker_ready.connect(up, weak=False)
    worker_shutdown.connect(down, weak=False)
    return host


def _watch_parent() -> None:
    """Leave when standard input closes: the pipe's other end was our parent."""
    while sys.stdin.buffer.read(4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(LAST_CHANCE)
    os._exit(1)
