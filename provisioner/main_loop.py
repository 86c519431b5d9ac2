"""The main loop of a provisioner: it takes charge of a farm and sizes it until stopped."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, closing

import typer

from farm.core.errors import RunError
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.lease import Lease
from farm.live.redis.trouble import RedisError, Trouble, trouble_of
from farm.live.settings import LiveSettings
from provisioner.service import LOOK_INTERVAL, Provisioner

log = logging.getLogger("farm.provisioner")

#: real seconds between two tries while another provisioner is in charge, or the server is away
STANDBY_INTERVAL = 0.5


def serve(service: Provisioner, lease: Lease, stop: threading.Event) -> None:
    """Run until stopped, waiting during trouble with the server."""
    restored = False
    trouble: Trouble | None = None
    while not stop.wait(LOOK_INTERVAL):
        if lease.lost:
            raise RunError("another provisioner took this farm over: this one stops")
        try:
            if not restored:
                service.restore()
                restored = True
            service.look()
            if trouble is not None:
                trouble = None
                log.info("the Redis server is well again")
        except RedisError as error:
            found = trouble_of(error)
            if found is None:
                raise
            if trouble is None or trouble.kind != found.kind:
                log.error("trouble with the Redis server: %s", found.words)  # noqa: TRY400
            trouble = found
            stop.wait(STANDBY_INTERVAL)
    log.info("stopped")


def take_charge(url: str, settings: LiveSettings, stack: ExitStack, stop: threading.Event) -> Lease:
    """Wait until no other provisioner is in charge of this farm, then take charge of it."""
    client = stack.enter_context(closing(connect(url, "farm-provisioner-lease")))
    lease = Lease(client, Keys(f"{settings.prefix}provisioner:"))
    logged = False
    while lease.try_to_take(client) is None:
        if not logged:
            log.info("another provisioner is in charge, or was killed just now: standing by")
            logged = True
        if stop.wait(STANDBY_INTERVAL):
            raise typer.Exit(0)
    stack.callback(lease.release)
    return lease
