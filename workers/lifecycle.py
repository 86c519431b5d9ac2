"""Starts and stops a builder host with its Celery worker."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings

from celery.platforms import SecurityWarning
from celery.signals import worker_init, worker_ready, worker_shutdown, worker_shutting_down
from celery.utils.log import get_task_logger
from kombu.asynchronous import get_event_loop

from farm.core.errors import FarmError, ServerError
from farm.live.redis.connection import RefusedError, check_server, connect
from farm.live.redis.keys import Keys
from farm.live.redis.trouble import RedisError
from farm.live.settings import LiveSettings
from farm.live.wire.messages import MessageError
from workers.host import BuilderHost

log = get_task_logger(__name__)


def bind(settings: LiveSettings) -> BuilderHost:
    """Return the host that starts and ends with this process's worker."""
    # running as root (in a container) is no news: nothing is unpickled here
    warnings.filterwarnings("ignore", category=SecurityWarning)
    try:
        host = BuilderHost(settings, os.getpid())
    except MessageError as error:
        raise SystemExit(f"FARM_PLAY: {error}") from None
    except FarmError as error:
        raise SystemExit(str(error)) from None

    def before(**_: object) -> None:
        _prepare_server(settings)

    def up(**_: object) -> None:
        threading.excepthook = end_with_thread
        try:
            host.start()
        except Exception:
            # Celery would log it and continue with a worker without builders
            log.exception("this host cannot come up")
            os.kill(os.getpid(), signal.SIGTERM)

    def down(**_: object) -> None:
        host.close()

    worker_init.connect(before, weak=False)
    worker_shutting_down.connect(_wake_the_loop, weak=False)
    worker_ready.connect(up, weak=False)
    worker_shutdown.connect(down, weak=False)
    return host


def end_with_thread(ended: threading.ExceptHookArgs) -> None:
    """End this process, as a thread of it was ended by an error (for ``threading.excepthook``).

    Without its agenda or its reports a host would live on, silent, and not be replaced. It does not
    wait for its attempts then.
    """
    error = ended.exc_value or ended.exc_type()
    log.error("a thread of this host ended: the host ends", exc_info=error)
    os.kill(os.getpid(), signal.SIGTERM)


def _prepare_server(settings: LiveSettings) -> None:
    """Delete commands for an earlier life of this host, such as to run builders that are lost.

    Ends the process if the server refuses access, because Celery would retry forever.
    """
    url = settings.redis_url
    if url is None:
        return
    with contextlib.closing(connect(url, settings.host)) as client:
        try:
            check_server(client, url)
            client.unlink(Keys(settings.prefix).host_list(settings.host))
        except RefusedError as error:
            sys.stderr.write(f"error: {error}\n")
            raise SystemExit(error.exit_code) from None
        except (ServerError, RedisError):
            pass  # it may come: Celery waits for it


def _wake_the_loop(**_: object) -> None:
    """Wake Celery's event loop, so that it notices a request to end.

    Its signal handler only sets a flag, which the loop sees after a poll of up to two seconds;
    a call from another thread wakes it.
    """
    hub = get_event_loop()
    if hub is not None:
        threading.Thread(target=hub.call_soon, args=(lambda: None,), daemon=True).start()
