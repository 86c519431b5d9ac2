"""The live world: events are what hosts and submitters report, commands go out as Celery messages.

``next_event`` commits the results of the last batch of events in one transaction, then waits, a
bounded time, for more reports. Each is stamped with farm time when it is read.
"""

from __future__ import annotations

import math
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence

from farm.core.commands import Command, EndJob
from farm.core.events import Event
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.live.clock import FarmClock
from farm.live.commits import Commits
from farm.live.lifetime import Lifetime
from farm.live.options import LiveOptions
from farm.live.protocol.protocol import Protocol
from farm.live.redis.trouble import MAX_ABSENCE, ServerCalls, Trouble
from farm.live.regular_work import LEAST_WAIT, MAX_WAIT, Background, RegularWork
from farm.live.store.published import Notices
from farm.live.store.saved import SavedFarm
from farm.live.store.store import Store
from farm.live.wire.dead_letters import SHOWN
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import Ask, PlannerReport
from farm.live.wire.pool_report import FarmStatus, status_of
from farm.metrics.series import Series


class LiveWorld:
    """A world for ``farm.core.driver.drive``; used from one thread (only ``stop`` from others).

    The caller starts the ``clock``. ``tick`` is called between batches, every 0.05 to 0.25 s real
    and when it last asked for it, and may raise RunError; ``progress`` is given the status a few
    times per second.
    """

    def __init__(
        self,
        *,
        store: Store,
        inbox: Inbox,
        scheduler: Scheduler,
        pools: Sequence[PoolSpec],
        clock: FarmClock,
        options: LiveOptions,
        tick: Callable[[], float] = lambda: math.inf,
        progress: Callable[[FarmStatus], None] | None = None,
        meter: Series | None = None,
    ) -> None:
        stays = options.stays is not None
        self.clock = clock
        self._inbox, self._store = inbox, store
        self._scheduler, self._options = scheduler, options
        self._meter = meter or Series()
        self.protocol = Protocol(
            pools, clock.speed, options.patience, options.incarnation, inbox.refusals,
            # where operators submit jobs, an id can be used only once
            (lambda jobs: self.commits.ask(lambda: store.known(jobs))) if stays else None,
        )  # fmt: skip
        #: what is done in small steps between batches of reports
        self.background = Background()
        self._call = ServerCalls(
            # a long-running farm waits, however long it takes to repair its server
            None if stays else MAX_ABSENCE,
            self._wait_out,
            well_again=lambda: self.protocol.failures.restart_timeouts(time.monotonic()),
        )
        self.commits = Commits(
            store, inbox, scheduler, self.protocol, clock, self._call, self._meter, options.stays
        )
        self.regular = RegularWork(
            tick, self.commits.look_at_keys, lambda: progress and progress(self.status()),
            self.background.has_time,
            # the processes of hosts that are started here are looked after by ticks
            rests=stays and options.hosts == 0,
        )  # fmt: skip
        self._lifetime = Lifetime(scheduler, self.protocol, None if stays else options.ends_at)

    # --- the World protocol -----------------------------------------------------------------

    def next_event(self) -> Event | None:
        """Return the next event, waiting for it; None when the run is over.

        Raises RunError when the server stays away, and whatever ``tick`` raises.
        """
        pending = self.protocol.out.events
        while not pending:
            self.commits.commit()
            now = time.monotonic()
            self.regular.do(now)
            if self._lifetime.is_over(self.clock.now(), now):
                return None
            pause = self.background.turn(now)
            self._meter.observe("farm_scheduler_aside_seconds", time.monotonic() - now)
            if not pending:
                silence_at = self.protocol.failures.next_silence()
                self.take_in(self.regular.longest_wait(now, pause, silence_at))
        event = self.protocol.out.next()
        self.commits.touch(event)
        return event

    def execute(self, command: Command) -> None:
        """Note a command for the batch; ``next_event`` commits it."""
        self.commits.note(command)

    # --- for the run ------------------------------------------------------------------------

    def stop(self) -> None:
        """Request the end: once, running jobs end; twice, they are cancelled. Callable anywhere."""
        self._lifetime.asked += 1
        self._inbox.wake.set()

    def wake(self) -> None:
        """End a wait for reports: there is something else to do. Callable from any thread."""
        self._inbox.wake.set()

    @property
    def stopping(self) -> bool:
        """Whether the end was requested."""
        return self._lifetime.asked > 0

    def set_aside(self, error: Exception) -> None:
        """Keep the message that could not be handled, whole, and let no scheduler read it again."""
        out = self.protocol.out
        if (entry := out.message or out.origin) is not None:
            why = "".join(traceback.format_exception(error))
            letter = entry.refused("error", why[-SHOWN:], entry.data.decode(errors="replace"))
            self._call(lambda: self._store.set_aside(letter))

    def add(self, message: PlannerReport | Ask) -> None:
        """Take a plan, or a question, as if it had come over the wire."""
        self.protocol.take(message, self.clock.now())

    def add_event(self, make: Callable[[float], Event]) -> None:
        """Add an event, made at the present farm time."""
        self.protocol.out.add(make(self.clock.now()))

    @property
    def notices(self) -> Notices:
        """Where the farm's state is published, and its answers go."""
        return self._store.notices

    def server_time(self) -> float:
        """Return the time of day by the server's clock (Unix)."""
        return self._call(self._store.server_time)

    def go_on(self, saved: SavedFarm, ends: Sequence[EndJob] = ()) -> None:
        """Continue a restored farm; ``ends``: of jobs that the server may have lost."""
        self.commits.go_on(saved, ends)
        at, now = self.clock.now(), time.monotonic()
        self.protocol.go_on(saved, tuple(self._scheduler.builders), at, now)

    def open(self) -> None:
        """Open the farm."""
        self._lifetime.open(self.clock.now())

    def start(self, hosts: int) -> None:
        """Let the next event be None, once, when the farm is up; it opens with this many hosts."""
        self._lifetime.start(hosts, time.monotonic())

    def take_in(self, timeout: float = MAX_WAIT) -> None:
        """Wait for reports, at most so long, and turn what came into events."""
        protocol, began = self.protocol, time.monotonic()
        if (alarm := protocol.next_alarm) is not None:
            timeout = min(timeout, max(LEAST_WAIT, self.clock.real_until(alarm)))
        waiting = len(self._scheduler.jobs) - self.commits.running
        room = waiting + protocol.submissions.live.extra < self._options.max_waiting
        changes = protocol.changes
        entries = self.commits.ask(lambda: self._inbox.read(timeout, submissions=room))
        now, at = time.monotonic(), self.clock.now()
        self.commits.read(len(entries), now)
        protocol.receive(entries, timeout, at, now)
        unsure = protocol.hosts.unsure(now)
        queued = self.commits.ask(lambda: self._store.queued_messages(unsure)) if unsure else {}
        protocol.hosts.compare(queued, at)
        # of what hosts sent after it began, a turn may have read nothing
        if not self._inbox.is_behind and protocol.failures.silent(began):
            # a server that is full answers us, and keeps hosts silent
            self._call(self._store.write_something)
            for host in protocol.failures.silent(began):
                protocol.hosts.lose(host, at, "its host is silent")
        protocol.ring(at)
        if protocol.out.events or protocol.out.asked or protocol.changes != changes:
            self.regular.tick_soon()

    def status(self) -> FarmStatus:
        """Return the status of the run."""
        submissions = self.protocol.submissions
        return status_of(
            self._scheduler,
            self.clock.now(),
            self.commits.running,
            submitted=submissions.accepted,
            ended=dict(self.commits.ended),
            hosts=len(self.protocol.known_hosts),
            stopping=self.stopping,
            worst_delay=submissions.worst_delay,
            unplaced=Counter(play.builder.pool for play in self.protocol.builders.wanted.values()),
            speed=self.clock.speed,
            max_waiting=self._options.max_waiting,
        )

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the server now, as far as we have met it. Safe from any thread."""
        return self._call.trouble

    def _wait_out(self, seconds: float) -> bool:
        self.regular.show()
        time.sleep(seconds)
        return self._lifetime.is_pressing
