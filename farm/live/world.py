"""The live world: events are what hosts and submitters report, commands go out as Celery messages.

``next_event`` commits the results of the last batch of events in one transaction, then waits, a
bounded time, for more reports. Each is stamped with farm time when it is read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence

from farm.core.commands import Command, EndJob
from farm.core.events import Event, JobsSubmitted
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.live.clock import FarmClock
from farm.live.commits import Commits
from farm.live.lifetime import Lifetime
from farm.live.live_options import LiveOptions
from farm.live.protocol.out import Out
from farm.live.protocol.protocol import Protocol
from farm.live.redis.trouble import Trouble
from farm.live.regular_work import RegularWork, Step
from farm.live.store.saved import SavedFarm
from farm.live.store.store import Store
from farm.live.wire.inbox import Inbox, InboxEntry
from farm.live.wire.pool_report import FarmStatus, status_of
from farm.metrics.series import Series
from farm.plugins.guards import complaints_of


class LiveWorld:
    """A world for ``farm.core.driver.drive``; used from one thread (only ``stop`` from others).

    The caller starts the ``clock``. ``tick`` is called with the names of the hosts that are there
    between batches, every 0.05 to 0.25 s real and when it last asked for it, and may raise
    RunError; ``progress`` is given the status a few times per second.
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
        tick: Callable[[Collection[str]], float] = lambda _: math.inf,
        progress: Callable[[FarmStatus], None] | None = None,
        meter: Series | None = None,
    ) -> None:
        stays, meter = options.stays, meter or Series()
        self._inbox, self._store, self._scheduler = inbox, store, scheduler
        self.clock, self._options = clock, options
        #: where the farm's state is published, and its answers go
        self.notices = store.notices
        self.out = Out(inbox.refusals)
        # where operators submit jobs, an id can be used only once; a run's workload makes its own
        known = self._known if stays else None
        self.protocol = Protocol(
            self.out, pools, clock.speed, options.patience, options.incarnation, known
        )
        self.commits = Commits(
            store, inbox, scheduler, self.protocol, self.out, clock, meter, stays, self._wait_out
        )
        self._regular = RegularWork(
            lambda: tick(self.protocol.known_hosts),
            self.commits.look_at_keys,
            lambda: progress and progress(self.status()),
            meter,
            # the processes of hosts that are started here are looked after by ticks
            rests=stays is not None and options.hosts == 0,
        )
        ends_at = None if stays else options.ends_at
        self._lifetime = Lifetime(scheduler, self.protocol, self.out, ends_at)

    # --- the World protocol -----------------------------------------------------------------

    def next_event(self) -> Event | None:
        """Return the next event, waiting for it; None when the run is over.

        Raises RunError when the server stays away, and whatever ``tick`` raises.
        """
        while not self.out.events:
            self.commits.commit()
            now = time.monotonic()
            if self._lifetime.is_over(self.clock.now(), now):
                return None
            pause = self._regular.do(now)
            if not self.out.events:
                due = self.protocol.due(now, self.clock.real_until)
                self.receive_reports(self._regular.longest_wait(now, pause, due))
        event = self.out.next()
        if type(event) is JobsSubmitted and any(job.needs for job in event.jobs):
            event = self.commits.with_ended_needs(event)
        self.commits.touch(event)
        return event

    def execute(self, command: Command) -> None:
        """Note a command for the batch; ``next_event`` commits it."""
        self.commits.note(command)

    def receive_reports(self, timeout: float) -> None:
        """Wait for reports, at most ``timeout`` real seconds, and turn them into events."""
        changes_before = self.protocol.changes
        turn_began = time.monotonic()
        entries = self._read_inbox(timeout)
        now = time.monotonic()
        at = self.clock.now()
        self.commits.read(len(entries), now)

        hosts_to_check = self.protocol.receive(entries, timeout, at, now)
        queue_lengths: dict[str, int] = {}
        if hosts_to_check:
            queue_lengths = self.commits.ask(lambda: self._store.queued_messages(hosts_to_check))

        # silence is judged as of the turn's start: what a host sent later may be unread
        judged_at = turn_began
        if self._inbox.is_behind:  # what it sent earlier may be unread, too: none counts as silent
            judged_at = -math.inf
        if self.protocol.silent(judged_at):
            # a full server answers this process but refuses what hosts report: a write shows that
            self.commits.ask(self._store.write_something)
        self.protocol.settle(queue_lengths, judged_at, at)

        if self.out.is_news or self.protocol.changes != changes_before:
            self._regular.tick_soon()

    def _read_inbox(self, timeout: float) -> Sequence[InboxEntry]:
        """Return what was reported; submissions only while fewer jobs wait than are allowed."""
        waiting = len(self._scheduler.jobs) - self.commits.running
        has_room = self.protocol.has_room(waiting, self._options.max_waiting)
        return self.commits.ask(lambda: self._inbox.read(timeout, submissions=has_room))

    # --- for the run ------------------------------------------------------------------------

    def start(self, hosts: int) -> None:
        """Let the next event be None, once, when the farm is up; it opens with this many hosts."""
        self._lifetime.start(hosts, time.monotonic())

    def go_on(
        self, saved: SavedFarm | None, ends: Sequence[EndJob] = (), restored: str = ""
    ) -> None:
        """Open the farm, which may be a restored one.

        ``ends``: of jobs that may be lost there; ``restored``: what the server had lost, in words.
        """
        at, now = self.clock.now(), time.monotonic()
        if saved is not None:
            self.commits.go_on(saved, ends, restored)
            self.protocol.go_on(saved, tuple(self._scheduler.builders), at, now)
        self._lifetime.open(at)

    def wait_for(self, is_more_to_come: Callable[[], bool]) -> None:
        """Let the run last while more jobs are to come than those that come by themselves."""
        self._lifetime.is_more_to_come = is_more_to_come

    def stop(self) -> None:
        """Request the end: once, running jobs end; twice, they are cancelled. Callable anywhere."""
        self._lifetime.asked += 1
        self.wake()

    def wake(self) -> None:
        """End a wait for reports: there is something else to do. Callable from any thread."""
        self._inbox.wake.set()

    @property
    def stopping(self) -> bool:
        """Whether the end was requested."""
        return self._lifetime.asked > 0

    def set_aside(self, error: Exception) -> None:
        """Let no scheduler read the message again that could not be handled."""
        self.commits.set_aside(error)

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the server now, as far as we have met it. Safe from any thread."""
        return self.commits.trouble

    def add_event(self, make: Callable[[float], Event]) -> None:
        """Add an event, made at the present farm time."""
        self.out.add(make(self.clock.now()))

    def add_step(self, step: Step) -> None:
        """Add work that is done in steps, between batches, for as long as the farm runs."""
        self._regular.add(step)

    def status(self) -> FarmStatus:
        """Return the status of the run."""
        more = self.protocol.figures() | {"ended": dict(self.commits.ended)}
        more |= {"speed": self.clock.speed, "max_waiting": self._options.max_waiting}
        more["restored"] = self.commits.restored
        more["complaints"] = complaints_of(self._scheduler.own_functions)
        if (drain := self._store.log_drain) is not None:
            more |= {"log_trouble": drain.trouble, "log_lacks": drain.lost_in_words}
        at, running = self.clock.now(), self.commits.running
        return status_of(self._scheduler, at, running, stopping=self.stopping, **more)

    def _known(self, jobs: Sequence[str]) -> dict[str, str]:
        return self.commits.ask(lambda: self._store.known(jobs))

    def _wait_out(self, seconds: float) -> bool:
        self._regular.show()
        time.sleep(seconds)
        return self._lifetime.is_pressing
