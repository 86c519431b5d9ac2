"""A live farm from beginning to end: server, hosts, scheduler, load; and nothing left behind."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from farm.core.commands import Command
from farm.core.errors import RunError
from farm.core.events import Event
from farm.driver import Observer, drive
from farm.live.clock import FarmClock
from farm.live.connection import Connection, connect
from farm.live.hosts import HostProcesses
from farm.live.inbox import Inbox
from farm.live.keys import Keys
from farm.live.lease import Lease
from farm.live.load import Batches, LoadGenerator
from farm.live.mirror import FarmBook
from farm.live.pool import LivePool
from farm.live.reporter import Reporter
from farm.live.roster import Patience
from farm.live.server import choose_server
from farm.live.settings import DEFAULT_PREFIX, LiveSettings
from farm.live.store import Store
from farm.live.world import LiveStatus, LiveWorld

#: real seconds for hosts to come up, and for the first builders to join
START_TIMEOUT = 60.0
#: builders that one host process plays before another process is worth its start-up
BUILDERS_PER_HOST = 200


class LiveScheduler(FarmBook, Protocol):
    """A scheduler whose memory the live world mirrors in Redis."""

    def handle(self, event: Event) -> Sequence[Command]:
        """Take one fact in and return the orders that follow from it."""


class LiveRun(msgspec.Struct, frozen=True):
    """How a live run ended; what happened in it is what the observers saw."""

    status: LiveStatus
    #: it was stopped before its load was done
    interrupted: bool
    #: real seconds from the clock's start to the end of the last job
    wall_time: float
    #: the server that was used, without its password
    engine: str


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a live farm is set up; times here are real seconds."""

    speed: float = 1.0
    #: None: a server of our own
    redis_url: str | None = None
    prefix: str = DEFAULT_PREFIX
    #: builder host processes; 0: none (hosts come from elsewhere), None: as many as needed
    hosts: int | None = None
    restart_hosts: bool = True
    #: where the hosts' logs go; None: a temporary folder
    log_folder: Path | None = None
    patience: Patience = Patience()
    server_patience: float = 30.0
    beat_interval: float = 1.0


def run_live(
    scheduler: LiveScheduler,
    pools: Sequence[LivePool],
    batches: Batches,
    options: LiveOptions,
    *,
    observe: Observer,
    progress: Callable[[LiveStatus], None] | None = None,
    on_up: Callable[[LiveWorld, HostProcesses], None] | None = None,
) -> LiveRun:
    """Run the workload on a live farm until its last job has ended, or until it is stopped.

    Call it from the main thread: SIGINT and SIGTERM ask for the end (twice: at once).
    ``on_up`` is told when the farm stands, before the first job (chaos tests, displays).
    Raises ServerError if there is no usable server, RunError if the run cannot go on.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(choose_server(options.redis_url))
        keys = Keys(options.prefix)
        client = stack.enter_context(contextlib.closing(connect(server.url, "farm-scheduler")))
        lease_client = stack.enter_context(contextlib.closing(connect(server.url, "farm-lease")))
        lease = Lease(lease_client, keys)
        lease.take(server.url)
        stack.callback(lease.release)
        store = Store(client, keys)
        store.open(options.speed)
        if options.redis_url:
            stack.callback(_clear_quietly, store)
        folder = options.log_folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-logs-"))
        )
        settings = LiveSettings(
            redis_url=server.url, prefix=options.prefix, beat_interval=options.beat_interval
        )
        count = _hosts_needed(pools) if options.hosts is None else options.hosts
        hosts = stack.enter_context(
            HostProcesses(settings, count, folder, restart=options.restart_hosts)
        )
        reporter = Reporter(server.url, keys, "load")
        reporter.start()
        stack.callback(reporter.close, 2.0)
        clock = FarmClock(options.speed)
        load = LoadGenerator(batches, clock, reporter)

        def tick() -> None:
            lease.check()
            hosts.check()
            if load.error is not None:
                raise load.error
            if reporter.refused is not None:
                raise RunError(f"a submission could not be sent: {reporter.refused}")
            if world.stopping:
                load.stop(0.0)

        world = LiveWorld(
            store=store,
            inbox=Inbox(client, keys),
            book=scheduler,
            pools=pools,
            clock=clock,
            patience=options.patience,
            server_patience=options.server_patience,
            tick=tick,
            progress=progress,
        )
        stack.enter_context(_stopped_by_signals(world))
        _bring_up(world, count)
        if on_up is not None:
            on_up(world, hosts)
        clock.start()
        began = time.monotonic()
        load.start()
        stack.callback(load.stop)
        drive(scheduler, world, observe)
        if progress is not None:
            progress(world.status())
        return LiveRun(
            status=world.status(),
            interrupted=world.stopping,
            wall_time=time.monotonic() - began,
            engine=_engine(client),
        )


def _bring_up(world: LiveWorld, hosts: int) -> None:
    """Wait for the hosts, then for the builders that need no time to boot.

    Farm time stands still at 0 meanwhile, so a fixed pool is there when the first job comes.
    """
    world.await_hosts(hosts, START_TIMEOUT)
    world.request_builders()
    world.await_builders(START_TIMEOUT)


def _hosts_needed(pools: Sequence[LivePool]) -> int:
    builders = sum(pool.builders for pool in pools)
    return max(1, -(-builders // BUILDERS_PER_HOST))


def _clear_quietly(store: Store) -> None:
    with contextlib.suppress(Exception):
        store.clear()


def _engine(client: Connection) -> str:
    with contextlib.suppress(Exception):
        info = client.info("server")
        name = "valkey" if "valkey_version" in info else "redis"
        return f"{name} {info.get('valkey_version') or info.get('redis_version')}"
    return "redis"


@contextlib.contextmanager
def _stopped_by_signals(world: LiveWorld) -> Iterator[None]:
    """Let SIGINT and SIGTERM ask the world for its end while the run lasts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, lambda *_: world.stop()) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
