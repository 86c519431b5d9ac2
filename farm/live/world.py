"""The live world: events are what hosts and submitters report, commands go out as Celery messages.

``next_event`` commits the results of the last batch of events in one transaction, then waits, a
bounded time, for more reports. Each is stamped with farm time when it is read.
"""

from __future__ import annotations

import heapq
import logging
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from farm.core import events
from farm.core.commands import Command, EndJob, RequestBuilder, SetAlarm
from farm.core.errors import RunError
from farm.core.events import Event
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.live.clock import FarmClock
from farm.live.cycle_meter import CycleMeter
from farm.live.farm_status import status_of
from farm.live.hosts.intake import Intake
from farm.live.hosts.outbox import Outbox
from farm.live.hosts.requested_builders import BuilderRequests
from farm.live.hosts.roster import Roster
from farm.live.hosts.successor_state import SuccessorState
from farm.live.options import LiveOptions
from farm.live.redis.fence import LostWritesError, SpoiltError
from farm.live.redis.keys import Cursor
from farm.live.redis.server_calls import MAX_ABSENCE, ServerCalls
from farm.live.redis.trouble import Trouble
from farm.live.regular_work import LEAST_WAIT, MAX_WAIT, RegularWork
from farm.live.small_steps import Background
from farm.live.stop_conditions import Ending
from farm.live.store.batch import Batch
from farm.live.store.cursor import CommittedCursor
from farm.live.store.lost_writes import Recent, message_of
from farm.live.store.saved import SavedFarm
from farm.live.store.state_writer import StateWriter
from farm.live.store.store import Store
from farm.live.wire.dead_letters import SHOWN
from farm.live.wire.inbox import Entry, Inbox
from farm.live.wire.pool_report import FarmStatus
from farm.metrics.series import Series

log = logging.getLogger("farm.scheduler")

T = TypeVar("T")


class LiveWorld:
    """A world for ``farm.core.driver.drive``; used from one thread (only ``stop`` from others).

    Args:
        store, inbox: the farm's keys in Redis.
        scheduler: its state is mirrored in the store.
        pools: the specifications of the pools.
        clock: farm time, started by the caller.
        options: how the farm is set up; one that stays up ends only on request.
        tick: called between batches, every 0.05 to 0.25 s real; it may raise RunError.
        progress: given the status a few times per second.
        meter: receives the durations of the scheduler's work.
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
        tick: Callable[[], None] | None = None,
        progress: Callable[[FarmStatus], None] | None = None,
        meter: Series | None = None,
    ) -> None:
        self.clock = clock
        self.roster = Roster(options.patience, options.incarnation)
        self.requests = BuilderRequests(pools, clock.speed)
        self._outbox = Outbox(self.roster)
        self._refusals = inbox.refusals
        # where operators submit jobs, an id can be used only once
        known = None if options.stays is None else self.known
        self.intake = Intake(self.requests, self.roster, self._outbox.send, self._refusals, known)
        #: the messages that the events came from, in the same order; None: from none
        self._messages: deque[Entry | None] = deque()
        #: the message that is being handled
        self._current: Entry | None = None
        self.ended: Counter[str] = Counter()
        self._store = store
        #: for what a control plane publishes
        self.notices = store.notices
        self._inbox = inbox
        self._scheduler = scheduler
        self._state_writer = StateWriter(scheduler)
        #: a long-running farm, whose state is kept
        self._stays = options.stays is not None
        self._successor_state = SuccessorState(scheduler, self.roster, self.requests)
        self._recent = Recent()
        self._meter = meter or Series()
        self._max_waiting = options.max_waiting
        #: returns the event log's lines made since its last call; None: none is kept
        self._log = None if options.stays is None else options.stays.log
        #: what is done in small steps between batches of reports
        self.background = Background()
        self._cycle = CycleMeter(self._meter)
        self._batch = Batch()
        #: builders were requested since the last commit
        self._to_be_placed = False
        #: the instant of the next alarm, farm time
        self._alarms: list[float] = []
        #: when reports were last read (real)
        self._read_at = time.monotonic()
        self._committed = CommittedCursor(inbox.cursor)
        self._calling = ServerCalls(
            # a long-running farm waits, however long it takes to repair its server
            None if self._stays else MAX_ABSENCE,
            self._wait_out,
            well_again=lambda: self.roster.restart_timeouts(time.monotonic()),
        )
        self._tick = tick
        self._progress = progress
        self.regular = RegularWork(
            tick, self._look_at_keys, self._show, self.background.has_time,
            # the processes of hosts that are started here are looked after by ticks
            rests=self._stays and options.hosts == 0,
        )  # fmt: skip
        self._ending = Ending(scheduler, self.intake, None if self._stays else options.ends_at)

    # --- the World protocol -----------------------------------------------------------------

    def next_event(self) -> Event | None:
        """Return the next event, waiting for it; None when the run is over.

        Raises RunError when the server stays away, and whatever ``tick`` raises.
        """
        events = self.intake.events
        while not events:
            self.commit()
            now = time.monotonic()
            self.regular.do(now)
            if self._ending.is_over(self.clock.now(), now):
                return None
            self._ending.look(self.clock.now(), now)
            pause = self.background.turn(now)
            self._meter.observe("farm_scheduler_aside_seconds", time.monotonic() - now)
            if not events:
                silence_at = self.roster.next_silence()
                self.take_in(self.regular.longest_wait(now, pause, silence_at))
        return self._next()

    def _next(self) -> Event:
        event = self.intake.events.popleft()
        self._current = self._messages.popleft() if self._messages else None
        self._state_writer.touch(event)
        return event

    def execute(self, command: Command) -> None:
        """Note a command for the batch; ``next_event`` commits it."""
        self._state_writer.note(command, self.clock.now(), self._batch)
        self._outbox.put(command)
        if isinstance(command, EndJob):
            self.ended[command.outcome] += 1
            self.intake.submissions.live.ended(command.job)
        elif isinstance(command, RequestBuilder):
            self.requests.request(command)
            self._to_be_placed = True
        elif isinstance(command, SetAlarm):
            heapq.heappush(self._alarms, command.rings_at)

    # --- for the run ------------------------------------------------------------------------

    def stop(self) -> None:
        """Request the end: once, running jobs end; twice, they are cancelled. Callable anywhere."""
        self._ending.asked += 1
        self._inbox.wake.set()

    def wake(self) -> None:
        """End a wait for reports: there is something else to do. Callable from any thread."""
        self._inbox.wake.set()

    @property
    def stopping(self) -> bool:
        """Whether the end was requested."""
        return self._ending.asked > 0

    def set_aside(self, error: Exception) -> None:
        """Keep the message that could not be handled, whole, and let no scheduler read it again."""
        if (entry := self._current) is not None:
            why = "".join(traceback.format_exception(error))
            letter = entry.refused("error", why[-SHOWN:], entry.data.decode(errors="replace"))
            self._calling(lambda: self._store.set_aside(letter))

    def known(self, job_ids: Sequence[str]) -> set[str]:
        """Return which of these jobs the store knows, live or ended."""
        return self._ask(lambda: self._store.known(job_ids))

    def server_time(self) -> float:
        """Return the time of day by the server's clock (Unix)."""
        return self._calling(self._store.server_time)

    def add_event(self, make: Callable[[float], Event]) -> None:
        """Add an event, made at the present farm time (for a provisioner)."""
        self.intake.events.append(make(self.clock.now()))

    def go_on(self, saved: SavedFarm, ends: Sequence[EndJob] = ()) -> None:
        """Continue a restored farm; ``ends``: of jobs that the server may have lost."""
        self._recent = Recent(ends, self._store.fence.commits)
        self.requests.go_on(saved)
        self.roster.go_on(saved, time.monotonic())
        self.ended.update(saved.counts.ended)
        self.intake.submissions.go_on(saved)
        self.intake.place()
        self._state_writer.touch_all()
        at = self.clock.now()
        for host in self.roster.of_earlier_lives():
            self.intake.lose(host, at, "its farm ended")
        self.intake.lose_hostless(self._scheduler.builders, at)

    def open(self) -> None:
        """Open the farm; if it stays up, a separate service sizes its provisioned pools."""
        self.add_event(lambda at: events.FarmOpened(at, provisioned=not self._stays))

    def await_hosts(self, count: int, timeout: float) -> None:
        """Wait until this many hosts are up; raises RunError on a time-out."""
        self._await(lambda: len(self.roster.hosts) >= count, timeout, "builder hosts")

    def next_event_of_opening(self, timeout: float) -> Event | None:
        """Return the next event until the builders that need no time to boot are there.

        Raises RunError if nothing happens for so long.
        """
        events = self.intake.events
        self._await(lambda: events or not self.requests.booting_at_once, timeout, "builders")
        return self._next() if events else None

    def _await(self, there: Callable[[], object], timeout: float, whom: str) -> None:
        deadline = time.monotonic() + timeout
        while not there() and not self.stopping:
            if self._tick is not None:
                self._tick()
            self.commit()
            self.take_in(0.05)
            if time.monotonic() > deadline:
                raise RunError(f"the {whom} did not come up within {timeout:g}s")

    def take_in(self, timeout: float = MAX_WAIT) -> None:
        """Wait for reports, at most so long, and turn what came into events."""
        if self._alarms:
            timeout = min(timeout, max(LEAST_WAIT, self.clock.real_until(self._alarms[0])))
        began = time.monotonic()
        waiting = len(self._scheduler.jobs) - self._state_writer.running
        room = waiting + self.intake.submissions.live.extra < self._max_waiting
        changes = self.roster.changes
        entries = self._calling(lambda: self._inbox.read(timeout, submissions=room))
        now, at = time.monotonic(), self.clock.now()
        self._cycle.read(len(entries), now)
        if now - self._read_at > timeout + self.roster.patience.gap:
            self.roster.restart_timeouts(now)
        self._read_at = now
        for entry in entries:
            self._note_messages(None)
            self._current = entry
            self.intake.take_in(entry, at, now)
            self._note_messages(entry)
            self._current = None
        if self.intake.beats:
            self._compare_beats(at)
        # of what hosts sent after it began, a turn may have read nothing
        if not self._inbox.is_behind and self.roster.silent(began):
            # a server that is full answers us, and keeps hosts silent
            self._calling(self._store.write_something)
            for host in self.roster.silent(began):
                self.intake.lose(host, at, "its host is silent")
        while self._alarms and self._alarms[0] <= at:
            heapq.heappop(self._alarms)
            self.intake.events.append(events.AlarmRang(at))
        if self.intake.events or self.intake.others or self.roster.changes != changes:
            self.regular.tick_soon()

    def _note_messages(self, entry: Entry | None) -> None:
        """Note that the events that were added last came from this message."""
        self._messages.extend([entry] * (len(self.intake.events) - len(self._messages)))

    def commit(self) -> None:
        """Write what the last events led to, and send the commands, as one transaction."""
        if self._to_be_placed:  # all that were requested together, once
            self._to_be_placed = False
            self.intake.place()
        self._state_writer.write(self._batch)
        if self._log is not None and (lines := self._log()):
            self._batch.log = {self._store.fence.commits + 1: lines}
        self._batch.messages, self._batch.unknown_hosts = self._outbox.take()
        self._batch.dead_letters, self._batch.refused = self._refusals.take()
        cursor = dict(self._inbox.cursor)
        if self._stays:  # a request for builders may be all that there is to write
            self._successor_state.write(self._batch, self.intake.submissions.accepted, self.ended)
        began = time.monotonic()
        unchanged = self._batch.is_empty and self._committed.may_wait(cursor, began)
        if unchanged and not self._store.fence.lost_writes:
            return
        batch, self._batch = self._batch, Batch()
        try:
            self._calling(lambda: self._store.commit(batch, cursor, self.clock.now()))
        except LostWritesError as lost:
            self._write_anew(lost, batch, cursor)
        self._recent.add(self._store.fence.commits, batch, self._store.log_on_disk())
        self._committed.note(cursor, began)
        self._cycle.committed(began, self._inbox.oldest)

    def _ask(self, question: Callable[[], T]) -> T:
        """Return the store's answer; what the farm wrote is put in the place of what it finds."""
        try:
            return self._calling(question)
        except LostWritesError as lost:
            batch, self._batch = self._batch, Batch()
            self._write_anew(lost, batch, self._committed.cursor)
            return self._calling(question)

    def _write_anew(self, lost: LostWritesError, batch: Batch, cursor: Cursor) -> None:
        """The server has lost what it had: memory has all that matters. Hosts are asked again."""
        if isinstance(lost, SpoiltError):
            self._refusals.extend(self._calling(partial(self._store.clear_spoilt, lost, batch)))
        again = self._recent.lost(lost, self._store.fence.commits)
        ended = self.ended.total() - len(batch.ended)
        log.error("%s", message_of(lost, live=len(self._scheduler.jobs), again=again, ended=ended))
        self._state_writer.forget()
        self._state_writer.write(batch)
        batch.log = self._recent.lines() | batch.log
        if self._stays:
            self._successor_state.write_all(batch, self.intake.submissions.accepted, self.ended)
        try:
            self._calling(lambda: self._store.restore(batch, again, cursor, self.clock.now()))
        except SpoiltError as spoilt:  # more of them
            self._write_anew(spoilt, batch, cursor)
            return
        self._meter.add("farm_server_losses_total")

    def status(self) -> FarmStatus:
        """Return the status of the run."""
        return status_of(
            self._scheduler,
            self.clock.now(),
            self._state_writer.running,
            submitted=self.intake.submissions.accepted,
            ended=dict(self.ended),
            hosts=sum(not host.lost for host in self.roster.hosts.values()),
            stopping=self.stopping,
            worst_delay=self.intake.submissions.worst_delay,
            unplaced=Counter(play.builder.pool for play in self.requests.wanted),
            speed=self.clock.speed,
            max_waiting=self._max_waiting,
        )

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the server now, as far as we have met it. Safe from any thread."""
        return self._calling.trouble

    def _wait_out(self, seconds: float) -> bool:
        self._show()
        time.sleep(seconds)
        return self._ending.is_pressing

    def _show(self) -> None:
        if self._progress is not None:
            self._progress(self.status())

    def _look_at_keys(self) -> None:
        hosts = len(self.roster.hosts) if self._stays else 0
        with suppress(LostWritesError):  # what is still missing is found by the next look
            self._ask(lambda: self._store.look_at_keys(self._state_writer.sizes(hosts)))

    def _compare_beats(self, at: float) -> None:
        beats, self.intake.beats = self.intake.beats, {}
        now = time.monotonic()
        unsure = [
            name
            for name, parts in beats.items()
            if any(self.roster.misses_something(host, beat, now) for host, beat in parts)
        ]
        queued = self._ask(lambda: self._store.queued_messages(unsure)) if unsure else {}
        for name, parts in beats.items():
            for host, beat in parts:
                self.intake.compare(host, beat, queued.get(name, 0), at)
