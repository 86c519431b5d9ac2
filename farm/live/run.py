"""A live farm from beginning to end: server, hosts, scheduler, load; and nothing left behind."""

from __future__ import annotations

import contextlib
import gc
import math
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import redis

from farm.core.commands import Command, EndJob
from farm.core.driver import Observer, World, drive
from farm.core.errors import FarmError, InvariantError, RunError, ServerError
from farm.core.events import Event, JobsSubmitted
from farm.core.model import Job
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.live.clock import FarmClock
from farm.live.host_processes import HostProcesses, hosts_needed
from farm.live.live_options import LiveOptions
from farm.live.log_recovery import recovered
from farm.live.redis.connection import Connection, connect
from farm.live.redis.keys import Keys
from farm.live.redis.leader_fencing import Fence, LostWritesError
from farm.live.redis.lease import Lease
from farm.live.redis.server import choose_server
from farm.live.redis.trouble import MAX_ABSENCE, ServerCalls, unusable_server
from farm.live.settings import LiveSettings
from farm.live.store.log_drain import POSITION, LogDrain
from farm.live.store.saved import FarmReader, SavedFarm, snapshot_of_saved
from farm.live.store.store import Store
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import UNSTAMPED, LoadDone
from farm.live.wire.pool_report import FarmStatus
from farm.live.wire.reporter import Reporter
from farm.live.world import LiveWorld
from farm.metrics.series import Series
from farm.processes.signals import StopSignals
from farm.workload import Submissions

#: middle collections (7,000 new objects each that live on) after which all objects are looked at
RARELY = 2000
#: real seconds after which a submitter whose jobs follow others looks whether it has to stop
LONGEST_PAUSE = 1.0
#: real seconds after its instant at which a job that follows others is not expected any more
MAX_DELAY = 60.0

Batches = Iterable[tuple[float, tuple[Job, ...]]]


class LoadGenerator:
    """A thread that submits each batch at its time.

    The intended arrival is written on every job, so that a scheduler (or a generator) that lags
    behind does not hide its own delay: response times count from the intended instant.

    Where people answer how jobs end, it is told of all that happens (``observe``, in the thread of
    the scheduler), and submits what follows.
    """

    def __init__(self, batches: Batches, clock: FarmClock, reporter: Reporter) -> None:
        self._batches = batches
        #: guards the submissions where people answer
        self._answers = threading.Condition()
        #: jobs that follow from ends of others and have not come in, with their instants
        self._coming: dict[str, float] = {}
        self._clock = clock
        self._reporter = reporter
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="farm-load", daemon=True)
        #: the error of the thread (a workload that cannot be generated)
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the thread; the clock is running."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop submitting and end the thread."""
        self._stop.set()
        with self._answers:
            self._answers.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def check(self, *, stop: bool) -> None:
        """Raise the thread's error, or stop if that was requested."""
        if self.error is not None:
            raise self.error
        if self._reporter.refused is not None:
            raise RunError(f"a submission could not be sent: {self._reporter.refused}")
        if stop:
            self._stop.set()

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Let people learn how jobs end; what they submit then is submitted in its time."""
        if not isinstance(self._batches, Submissions):
            return
        if isinstance(event, JobsSubmitted):
            for job in event.jobs:
                self._coming.pop(job.id, None)
        for command in commands:
            if type(command) is not EndJob:
                continue
            with self._answers:
                follows = self._batches.ended(command)
                self._answers.notify()
            self._coming.update((job.id, job.arrived_at or 0.0) for job in follows)

    def is_more_to_come(self) -> bool:
        """Return whether jobs follow that have not come in: the end of their load is no end."""
        return any(self._clock.real_until(at) > -MAX_DELAY for at in self._coming.values())

    def _run(self) -> None:
        try:
            if isinstance(self._batches, Submissions):
                self._submit_what_follows(self._batches)
                return
            for arrived_at, jobs in self._batches:
                pause = self._clock.real_until(arrived_at)
                if pause > 0:
                    self._stop.wait(pause)
                if self._stop.is_set():
                    return
                self._submit(arrived_at, jobs)
            self._reporter.put(LoadDone())
        except Exception as error:  # noqa: BLE001 - handed to the run, which ends with it
            self.error = error

    def _submit_what_follows(self, batches: Submissions) -> None:
        """Submit all batches, also those that are known only later, until stopped."""
        is_done = False
        while not self._stop.is_set():
            with self._answers:
                next_at = batches.next_at
                pause = LONGEST_PAUSE if next_at is None else self._clock.real_until(next_at)
                if pause > 0 and (next_at is not None or is_done):
                    self._answers.wait(min(pause, LONGEST_PAUSE))
                    continue
                batch = next(batches, None)
            if batch is not None:
                self._submit(*batch)
            else:  # nothing more comes by itself
                self._reporter.put(LoadDone())
                is_done = True

    def _submit(self, arrived_at: float, jobs: Sequence[Job]) -> None:
        stamped = tuple(_stamped(job, arrived_at) for job in jobs)
        self._reporter.put(JobsSubmitted(UNSTAMPED, stamped))


def _stamped(job: Job, arrived_at: float) -> Job:
    if job.arrived_at is not None:
        return job
    return msgspec.structs.replace(job, arrived_at=arrived_at)


class Watchers(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks on while a live farm runs, or has a turn."""

    #: sees every event with the commands that it led to
    observe: Observer
    #: given the status a few times per second
    progress: Callable[[FarmStatus], None] | None = None
    #: called when the farm has started, before the first job (chaos, displays)
    on_up: Callable[[LiveWorld, HostProcesses], None] = lambda *_: None
    #: called between batches of events, some times per second (a provisioner's turn); returns when
    #: it is to be called again at the latest (real)
    on_tick: Callable[[LiveWorld], float] = lambda _: math.inf
    #: receives the durations of the scheduler's work
    meter: Series | None = None
    #: given the world before it begins; may put something before it (estimates of submissions)
    around: Callable[[LiveWorld], World] = lambda world: world


class LiveRun(msgspec.Struct, frozen=True):
    """How a live run ended; what happened in it is what the observers saw."""

    status: FarmStatus
    #: it was stopped before its load was done
    interrupted: bool
    #: real seconds from the clock's start to the end of the last job
    wall_time: float
    #: the server that was used, without its password
    engine: str


def run_live(
    scheduler: Scheduler,
    pools: Sequence[PoolSpec],
    batches: Batches | None,
    options: LiveOptions,
    watchers: Watchers,
) -> LiveRun:
    """Run the workload on a live farm until its last job has ended, or until it is stopped.

    Call it from the main thread: SIGINT and SIGTERM request the end (twice: immediately).
    ``batches``: what is submitted, and when; None: others submit, and only a stop ends the run.

    Raises ServerError if there is no usable server, RunError if the run fails.
    """
    server = choose_server(options.redis_url)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(server)
            farm = _Farm(stack, server.url, scheduler, pools, options, watchers)
            return farm.run(batches)
    except redis.RedisError as error:
        raise unusable_server(server.url, error) from None


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
        self._fence = self._take_charge()
        self._store = Store(self._client, self._keys, self._fence)
        #: of jobs that ended, if the server has lost that
        self._ends: Sequence[EndJob] = ()
        #: what the server had lost, and what was restored; empty: nothing
        self._restored = ""
        self._saved = self._open_store()
        needed = hosts_needed(sum(pool.builders for pool in pools))
        self._host_count = needed if options.hosts is None else options.hosts
        self._hosts = self._start_hosts()
        self._load: LoadGenerator | None = None
        cursor = None if self._saved is None else self._saved.cursor
        set_aside = self._store.unreadable()
        self._world = LiveWorld(
            store=self._store,
            inbox=Inbox(self._client, self._keys, cursor, set_aside=set_aside),
            scheduler=scheduler,
            pools=pools,
            clock=self._clock,
            options=options,
            tick=self._tick,
            progress=watchers.progress,
            meter=watchers.meter,
        )
        self._driven = watchers.around(self._world)
        self._signals.reach(self._world.stop)

    def run(self, batches: Batches | None) -> LiveRun:
        """Bring the farm up, drive it to its end, and return how it went.

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
            # until the hosts are up, and builders that need no time to boot, farm time stays at 0:
            # a fixed pool is present when the first job comes
            self._world.start(self._host_count)
            drive(self._scheduler, self._world, self._watchers.observe)
        else:  # hosts join later
            self._clock.start(self._saved.now if self._saved else 0.0)
            self._world.go_on(self._saved, self._ends, self._restored)
        self._stack.enter_context(rare_collections())
        self._watchers.on_up(self._world, self._hosts)
        if self._options.stays is None:
            self._clock.start()
        began = time.monotonic()
        if batches is not None:
            self._load = self._start_load(batches)
        drive(self._scheduler, self._driven, self._observe)
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

    def _observe(self, event: Event, commands: Sequence[Command]) -> None:
        self._watchers.observe(event, commands)
        if self._load is not None:
            self._load.observe(event, commands)

    def _tick(self, known_hosts: Collection[str]) -> float:
        self._lease.check()
        self._hosts.check(known_hosts)
        if self._load is not None:
            self._load.check(stop=self._world.stopping)
        return self._watchers.on_tick(self._world)

    def _connect(self, name: str) -> Connection:
        return self._stack.enter_context(contextlib.closing(connect(self._url, name)))

    def _take_charge(self) -> Fence:
        self._stack.callback(self._lease.release)
        stays = self._options.stays
        if stays is None:
            return self._lease.take(self._client, self._url, time.sleep)
        return self._lease.stand_by(self._client, self._signals.wait, stays.on_charge)

    def _open_store(self) -> SavedFarm | None:
        """Begin a fresh farm, or take over the one that is there and let the scheduler know it."""
        stays = self._options.stays
        call = ServerCalls(None if stays else MAX_ABSENCE, self._signals.wait)
        if stays is None:
            call(lambda: self._store.open(self._options.speed, stays=False))
            if self._options.redis_url:
                # a server that outlives us: leave it as it was
                self._stack.callback(_clear_quietly, self._store)
            return None
        speed, reader = self._options.speed, FarmReader(self._client, self._keys)
        if (found := recovered(self._store, reader, self._fence, call, speed, stays)) is not None:
            self._ends, self._restored = found.ends, found.words
        saved = found.farm if found else None if stays.fresh else call(reader.saved)
        if saved is None:
            call(lambda: self._store.open(speed, stays=True))
        elif saved.speed != speed:
            raise ServerError(
                f"the farm in Redis runs at speed {saved.speed:g}, this one would at {speed:g}: "
                f"go on with --speed {saved.speed:g}, or begin afresh, without its jobs (--fresh; "
                "with Compose: docker compose down --remove-orphans --volumes)"
            )
        if stays.log is not None:
            if saved is not None and not (stays.log_folder / POSITION).exists():
                saved = msgspec.structs.replace(saved, logged=0)  # this log begins now
            stays.make_log_folder(saved is None)
            drain = self._stack.enter_context(LogDrain(self._url, self._keys, stays.log_folder))
            self._store.keep_log(drain)
        if saved is not None:
            stays.restore(snapshot_of_saved(saved), saved.rules != stays.rules, saved.learned)
        spoilt = saved.spoilt if saved else ()
        call(lambda: self._store.take_over(speed, stays.rules, spoilt))
        if found is not None:
            self._fence.expect(found.commits)
        return saved

    def _start_hosts(self) -> HostProcesses:
        options = self._options
        folder = options.log_folder or Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-logs-"))
        )
        given = {name: getattr(options, name) for name in LiveSettings.__struct_fields__}
        settings = LiveSettings(**{**given, "redis_url": self._url})
        return self._stack.enter_context(HostProcesses(settings, self._host_count, folder))

    def _start_load(self, batches: Batches) -> LoadGenerator:
        reporter = Reporter(self._url, self._keys, "load", "submissions")
        reporter.start()
        self._stack.callback(reporter.close, 2.0)
        load = LoadGenerator(batches, self._clock, reporter)
        self._world.wait_for(load.is_more_to_come)
        load.start()
        self._stack.callback(load.stop)
        return load


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Make the collector examine all objects rarely, and existing ones never.

    A full collection takes about 50 ms for the loaded modules alone, and as much again for every
    10,000 live jobs; reports wait for it, and by default there is one for every few thousand
    submissions. A farm's objects are freed without the collector, except for a few cycles
    (builders that left), which can wait.
    """
    gc.collect()
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, RARELY)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


def _clear_quietly(store: Store) -> None:
    with contextlib.suppress(redis.RedisError, LostWritesError, ServerError):
        store.vanish()


def _engine(client: Connection) -> str:
    with contextlib.suppress(redis.RedisError):
        info = client.info("server")
        name = "valkey" if "valkey_version" in info else "redis"
        return f"{name} {info.get('valkey_version') or info.get('redis_version')}"
    return "redis"
