"""A live farm from beginning to end: server, hosts, scheduler, load; and nothing left behind."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import redis

from farm.core.driver import Observer, World, drive
from farm.core.errors import FarmError, InvariantError, ServerError
from farm.core.events import Event
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.snapshot import FarmSnapshot
from farm.live.clock import FarmClock
from farm.live.gc_tuning import rare_collections
from farm.live.hosts.host_processes import HostProcesses, hosts_needed
from farm.live.hosts.registry import Patience
from farm.live.load_generator import Batches, LoadGenerator
from farm.live.meter import Meter
from farm.live.redis.connection import Connection, connect, redacted
from farm.live.redis.fence import Fence
from farm.live.redis.keys import Keys
from farm.live.redis.lease import Lease
from farm.live.redis.server import choose_server
from farm.live.redis.server_calls import MAX_ABSENCE, ServerCalls
from farm.live.redis.trouble import trouble_of
from farm.live.settings import DEFAULT_PREFIX, LiveSettings
from farm.live.store.log_drain import LogDrain
from farm.live.store.saved import SavedFarm, snapshot_of_saved
from farm.live.store.store import Store
from farm.live.wire.inbox import Inbox
from farm.live.wire.pool_report import LiveStatus
from farm.live.wire.reporter import Reporter
from farm.live.world import MAX_WAITING, LiveWorld
from farm.processes.signals import StopSignals

#: real seconds for hosts to come up, and for the first builders to join
START_TIMEOUT = 60.0
#: real seconds between two tries of a scheduler that stands by
STANDBY_INTERVAL = 0.1


class LiveRun(msgspec.Struct, frozen=True):
    """How a live run ended; what happened in it is what the observers saw."""

    status: LiveStatus
    #: it was stopped before its load was done
    interrupted: bool
    #: real seconds from the clock's start to the end of the last job
    wall_time: float
    #: the server that was used, without its password
    engine: str


class Stays(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a long-running farm, which continues from the state in Redis."""

    #: restores the scheduler from a snapshot (True: its rules are not those of the snapshot),
    #: with what was dumped of its estimator
    restore: Callable[[FarmSnapshot, bool, dict[str, Any] | None], None]
    #: names the scheduling rules: jobs that were queued under others are ordered anew
    rules: str
    #: begin afresh: forget what is in Redis
    fresh: bool = False
    #: gives the event log's lines since it was asked last; None: none is kept
    log: Callable[[], bytes] | None = None
    #: makes the folder of the log, told whether the farm begins anew
    log_folder: Callable[[bool], Path] = lambda _: Path()
    #: called with whether this scheduler is in charge (False: it stands by)
    on_charge: Callable[[bool], None] | None = None


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a live farm is set up; times here are real seconds."""

    speed: float = 1.0
    #: None: a new server
    redis_url: str | None = None
    prefix: str = DEFAULT_PREFIX
    #: builder host processes; 0: none (hosts come from elsewhere), None: as many as needed
    hosts: int | None = None
    #: where the hosts' logs go; None: a temporary folder
    log_folder: Path | None = None
    patience: Patience = Patience()
    beat_interval: float = 1.0
    #: work of one idle core in a second, as FARM_WORK_RATES has it; empty: hosts measure it
    work_rates: str = ""
    #: what burning jobs burn with, as FARM_BURNER has it
    burner: str = ""
    #: hosts serve metrics there if they have a folder to say so
    metrics_address: str = ""
    metrics_targets: Path | None = None
    #: while this many jobs wait, no more are accepted
    max_waiting: int = MAX_WAITING
    #: the run lasts at least until this farm time (the end of its phases)
    ends_at: float = 0.0
    #: names this life of a farm that stays up (``FARM_INCARNATION``)
    incarnation: str = ""
    #: None: the run ends with its load, and clears up after itself
    stays: Stays | None = None


class Watchers(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks on while a live farm runs, or has a turn."""

    #: sees every event with the commands that it led to
    observe: Observer
    #: given the status a few times per second
    progress: Callable[[LiveStatus], None] | None = None
    #: called when the farm has started, before the first job (chaos, displays)
    on_up: Callable[[LiveWorld, HostProcesses], None] | None = None
    #: called between batches of events, some times per second (a provisioner's turn)
    on_tick: Callable[[LiveWorld], None] | None = None
    #: receives the durations of the scheduler's work
    meter: Meter | None = None
    #: puts something before the world (estimates of its submissions)
    around: Callable[[LiveWorld], World] | None = None


def run_live(
    scheduler: Scheduler,
    pools: Sequence[PoolSpec],
    batches: Batches | None,
    options: LiveOptions,
    watchers: Watchers,
) -> LiveRun:
    """Run the workload on a live farm until its last job has ended, or until it is stopped.

    Call it from the main thread: SIGINT and SIGTERM request the end (twice: immediately).

    Args:
        scheduler: decides; its memory is mirrored in Redis.
        pools: the builders that there are to be.
        batches: what is submitted, and when; None: others submit, and only a stop ends the run.
        options: how the farm is set up.
        watchers: who looks on.

    Raises ServerError if there is no usable server, RunError if the run fails.
    """
    server = choose_server(options.redis_url)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(server)
            farm = _Farm(stack, server.url, scheduler, pools, options, watchers)
            return farm.run(batches)
    except redis.RedisError as error:
        trouble = trouble_of(error)
        what = str(error).partition("\n")[0] if trouble is None else trouble.words
        raise ServerError(f"Redis at {redacted(server.url)} cannot be used: {what}") from None


class _Opening:
    """A live world during its start, until the builders without a boot time have joined."""

    def __init__(self, world: LiveWorld) -> None:
        self._world = world
        self.execute = world.execute

    def next_event(self) -> Event | None:
        """Return the next event; None when the farm stands."""
        return self._world.next_event_of_opening(START_TIMEOUT)


class _Farm:
    """The parts of a run; whatever was begun is ended by the stack, in reverse order."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        url: str,
        scheduler: Scheduler,
        pools: Sequence[PoolSpec],
        options: LiveOptions,
        watchers: Watchers,
    ) -> None:
        self._stack = stack
        self._url = url
        self._options = options
        self._watchers = watchers
        self._scheduler = scheduler
        self._keys = Keys(options.prefix)
        self._clock = FarmClock(options.speed)
        self._signals = StopSignals()
        stack.enter_context(self._signals.caught())
        self._client = self._connect("farm-scheduler")
        self._lease = Lease(self._connect("farm-lease"), self._keys)
        self._store = Store(self._client, self._keys, self._take_charge())
        self._saved = self._open_store()
        needed = hosts_needed(sum(pool.builders for pool in pools))
        self._host_count = needed if options.hosts is None else options.hosts
        self._hosts = self._start_hosts()
        self._load: LoadGenerator | None = None
        self._world = LiveWorld(
            store=self._store,
            inbox=self._inbox(),
            book=scheduler,
            pools=pools,
            clock=self._clock,
            patience=options.patience,
            ends_at=options.ends_at,
            tick=self._tick,
            progress=watchers.progress,
            stays=options.stays is not None,
            meter=watchers.meter,
            incarnation=options.incarnation,
            max_waiting=options.max_waiting,
            log=None if options.stays is None else options.stays.log,
        )
        self._signals.reach(self._world.stop)

    def _inbox(self) -> Inbox:
        cursor = None if self._saved is None else self._saved.cursor
        set_aside = self._store.unreadable()
        return Inbox(self._client, self._keys, cursor, set_aside=set_aside)

    def run(self, batches: Batches | None) -> LiveRun:
        """Bring the farm up, drive it to its end, and say how it went.

        A defect that a message brings to light ends the run; the next one does not read it again.
        """
        try:
            return self._run(batches)
        except Exception as error:
            expected = isinstance(error, FarmError | redis.RedisError)
            if not expected or isinstance(error, InvariantError):
                self._world.set_aside(error)
            raise

    def _run(self, batches: Batches | None) -> LiveRun:
        if self._options.stays is None:
            self._bring_up()
        else:
            self._go_on()
        self._stack.enter_context(rare_collections())
        if self._watchers.on_up is not None:
            self._watchers.on_up(self._world, self._hosts)
        if self._options.stays is None:
            self._clock.start()
        began = time.monotonic()
        if batches is not None:
            self._load = self._start_load(batches)
        around = self._watchers.around
        world: World = self._world if around is None else around(self._world)
        drive(self._scheduler, world, self._watchers.observe)
        if self._watchers.on_tick is not None:
            self._watchers.on_tick(self._world)  # the end may have come between two turns
        status = self._world.status()
        if self._watchers.progress is not None:
            self._watchers.progress(status)
        return LiveRun(
            status=status,
            interrupted=self._world.stopping,
            wall_time=time.monotonic() - began,
            engine=_engine(self._client),
        )

    def _bring_up(self) -> None:
        """Wait for the hosts, then for the builders that need no time to boot.

        Farm time stays at 0 until then, so a fixed pool is present when the first job comes.
        """
        self._world.await_hosts(self._host_count, START_TIMEOUT)
        self._world.open()
        drive(self._scheduler, _Opening(self._world), self._watchers.observe)

    def _go_on(self) -> None:
        """Continue where an earlier scheduler stopped, if there was one; hosts join later."""
        self._clock.start(self._saved.now if self._saved else 0.0)
        if self._saved is not None:
            self._world.go_on(self._saved)
        self._world.open()

    def _tick(self) -> None:
        self._lease.check()
        self._hosts.check()
        if self._load is not None:
            self._load.check(stop=self._world.stopping)
        if self._watchers.on_tick is not None:
            self._watchers.on_tick(self._world)

    def _connect(self, name: str) -> Connection:
        return self._stack.enter_context(contextlib.closing(connect(self._url, name)))

    def _take_charge(self) -> Fence:
        lease, client, stays = self._lease, self._client, self._options.stays
        self._stack.callback(lease.release)
        if stays is None:
            return lease.take(client, self._url)
        fence = lease.try_to_take(client)
        if fence is None:
            _report_charge(stays, in_charge=False)
        while fence is None:
            if self._signals.asked:
                raise SystemExit(0)  # nothing was begun, so nothing is to be ended
            time.sleep(STANDBY_INTERVAL)
            with contextlib.suppress(redis.RedisError):
                fence = lease.try_to_take(client)
        _report_charge(stays, in_charge=True)
        return fence

    def _open_store(self) -> SavedFarm | None:
        """Begin a fresh farm, or take over the one that is there and let the scheduler know it."""
        stays = self._options.stays
        call = self._patiently()
        saved = None if stays is None or stays.fresh else call(self._store.saved)
        if saved is None:
            call(lambda: self._store.open(self._options.speed, stays=stays is not None))
            if stays is None and self._options.redis_url:
                # a server that outlives us: leave it as it was
                self._stack.callback(_clear_quietly, self._store)
        if stays is not None:
            if stays.log is not None:
                folder = stays.log_folder(saved is None)
                self._stack.enter_context(LogDrain(self._url, self._keys, folder))
            if saved is not None:
                self._check_speed(saved)
                rekey = saved.rules != stays.rules
                stays.restore(snapshot_of_saved(saved), rekey, saved.learned.statistics)
            call(lambda: self._store.take_over(stays.rules))
        return saved

    def _patiently(self) -> ServerCalls:
        """Return how the server is called by one that has the farm, but not yet its world."""
        return ServerCalls(
            None if self._options.stays else MAX_ABSENCE,
            gives_up=lambda: self._signals.asked > 0,
            before_pause=lambda: None,
            well_again=lambda: None,
        )

    def _check_speed(self, saved: SavedFarm) -> None:
        if saved.speed != self._options.speed:
            raise ServerError(
                f"the farm in Redis runs at speed {saved.speed:g}, this one would at "
                f"{self._options.speed:g}: give it the same speed, or begin afresh (--fresh)"
            )

    def _start_hosts(self) -> HostProcesses:
        options = self._options
        folder = options.log_folder or Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-logs-"))
        )
        settings = LiveSettings(
            redis_url=self._url,
            prefix=options.prefix,
            beat_interval=options.beat_interval,
            incarnation=options.incarnation,
            work_rates=options.work_rates,
            burner=options.burner,
            metrics_address=options.metrics_address,
            metrics_targets=str(options.metrics_targets or ""),
        )
        return self._stack.enter_context(HostProcesses(settings, self._host_count, folder))

    def _start_load(self, batches: Batches) -> LoadGenerator:
        reporter = Reporter(self._url, self._keys, "load", "submissions")
        reporter.start()
        self._stack.callback(reporter.close, 2.0)
        load = LoadGenerator(batches, self._clock, reporter)
        load.start()
        self._stack.callback(load.stop)
        return load


def _report_charge(stays: Stays, *, in_charge: bool) -> None:
    if stays.on_charge is not None:
        stays.on_charge(in_charge)


def _clear_quietly(store: Store) -> None:
    with contextlib.suppress(redis.RedisError):
        store.vanish()


def _engine(client: Connection) -> str:
    with contextlib.suppress(redis.RedisError):
        info = client.info("server")
        name = "valkey" if "valkey_version" in info else "redis"
        return f"{name} {info.get('valkey_version') or info.get('redis_version')}"
    return "redis"
