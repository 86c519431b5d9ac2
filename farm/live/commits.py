"""What is committed together: the state after a batch of events, and what is sent because of it."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from farm.core.commands import Command, EndJob
from farm.core.events import Event, JobsSubmitted
from farm.core.scheduler import Scheduler
from farm.live.clock import FarmClock
from farm.live.live_options import Stays
from farm.live.protocol.out import Out
from farm.live.protocol.protocol import Protocol
from farm.live.protocol.submissions import with_ended_needs
from farm.live.redis.keys import Cursor
from farm.live.redis.leader_fencing import LostWritesError
from farm.live.redis.trouble import MAX_ABSENCE, ServerCalls, Trouble
from farm.live.store.batch import MAX_LOG, Batch, LogLines
from farm.live.store.saved import Counts, SavedFarm
from farm.live.store.state_writer import StateWriter
from farm.live.store.store import Store
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import Reset
from farm.live.wire.task_messages import TaskMessages
from farm.metrics.series import Series
from farm.units import many

#: for so long what only moves the cursor (heartbeats that agree) is not committed, real seconds,
#: while few messages were read, and of many, which the server holds until then
CURSOR_INTERVAL, CURSOR_INTERVAL_OF_MANY = 10.0, 2.0
#: … messages that are many
MANY_READ = 100
#: jobs whose stories are kept for a server that loses them; earlier ones are on its disk
REMEMBERED = 20_000
#: ids that one line of the log names
NAMED = 20
LAG = "farm_scheduler_event_lag_seconds"

log = logging.getLogger("farm.scheduler")

T = TypeVar("T")


class Commits:
    """Collects what the next commit writes, and writes all anew if the server has lost it.

    ``wait_out``: see ``ServerCalls``.
    """

    def __init__(
        self,
        store: Store,
        inbox: Inbox,
        scheduler: Scheduler,
        protocol: Protocol,
        out: Out,
        clock: FarmClock,
        meter: Series,
        stays: Stays | None,
        wait_out: Callable[[float], bool],
    ) -> None:
        self._store, self._fence = store, store.fence
        self._inbox, self._refusals = inbox, inbox.refusals
        self._scheduler, self._clock = scheduler, clock
        self._protocol, self._out = protocol, out
        self._meter, self._stays = meter, stays
        #: what the server lost last, and what it was given again, in words; empty: nothing
        self.restored = ""
        #: … if that is known from the event log, and the server has not been given it yet
        self._restored_from_log = ""
        self._call = ServerCalls(
            # a long-running farm waits, however long it takes to repair its server
            None if stays else MAX_ABSENCE,
            wait_out,
            well_again=lambda: protocol.restart_timeouts(time.monotonic()),
        )
        self._state_writer = StateWriter(scheduler)
        self._messages = TaskMessages()
        self._batch = Batch()
        self._recent = Recent()
        #: what only a successor needs, as it was written last, by its name in a batch
        self._for_successor: dict[str, object] = {}
        #: how many builders were requested: those that await a host with room, and the others
        self._requested = 0, 0
        #: up to where the streams were read at the last commit, and when that was (real)
        self._cursor, self._committed_at = dict(inbox.cursor), 0.0
        #: messages read since then
        self._read = 0
        #: the last commit that had lines of the event log
        self._logged = 0
        #: when the reports came that are being decided on (real)
        self._cycle_began: float | None = None
        #: jobs, by outcome
        self.ended: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """The number of jobs on builders."""
        return self._state_writer.running

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the server now, as far as a call has met it."""
        return self._call.trouble

    def read(self, entries: int, now: float) -> None:
        """Note how many messages came, at this real instant."""
        if entries:
            self._cycle_began = now
            self._read += entries
        else:
            self._meter.set(LAG, {(): 0.0})

    def touch(self, event: Event) -> None:
        """Note what an event may change."""
        self._state_writer.touch(event)

    def with_ended_needs(self, event: JobsSubmitted) -> JobsSubmitted:
        """Return a submission that says how those ended that its jobs need and that are over."""
        return with_ended_needs(
            event,
            self._scheduler.jobs,
            self._batch.ended,
            lambda names: self.ask(lambda: self._store.outcomes(names)),
        )

    def note(self, command: Command) -> None:
        """Note a command: what it changes, and the message that carries it to a host."""
        self._state_writer.note(command, self._clock.now(), self._batch)
        self._protocol.obey(command, time.monotonic())
        if isinstance(command, EndJob):
            self.ended[command.outcome] += 1

    def commit(self) -> None:
        """Write what the last events led to, and send the commands, as one transaction."""
        self._protocol.place()
        for host, command in self._out.take_commands():
            if isinstance(command, Reset):  # the host may be gone
                self._batch.unknown_hosts.add(host)
            self._batch.messages[host].append(self._messages.encode(command, host))
        self._state_writer.write(self._batch)
        if self._stays is not None:  # a request for builders may be all that there is to write
            if self._stays.log is not None and (lines := self._stays.log()):
                self._batch.log = {self._fence.commits + 1: LogLines(self._logged, lines)}
            self._write_for_successor(self._batch)
        self._batch.dead_letters, self._batch.refused = self._refusals.take()
        cursor, began = dict(self._inbox.cursor), time.monotonic()
        if self._batch.is_empty and not self._fence.lost_writes:
            # a successor may read heartbeats again
            is_few = self._read < MANY_READ
            interval = CURSOR_INTERVAL if is_few else CURSOR_INTERVAL_OF_MANY
            soon = began < self._committed_at + interval
            reports = self._cursor["reports"] if soon else cursor["reports"]
            if cursor | {"reports": reports} == self._cursor:
                return
        batch, self._batch = self._batch, Batch()
        try:
            self._call(lambda: self._store.commit(batch, cursor, self._clock.now()))
        except LostWritesError as lost:
            cursor = self._restore(lost, batch, cursor)
        self._note_logged(batch)
        self._cursor, self._committed_at, self._read = cursor, began, 0
        self._measure(began)
        drain = self._store.log_drain
        if drain is not None and drain.gap is not None:
            # at once: what is missing is lost if this process ends before
            with suppress(LostWritesError):
                self._look_at_log()

    def _note_logged(self, batch: Batch) -> None:
        """Note what was just committed of the event log, and keep it until the disk has it."""
        commit, drain = self._fence.commits, self._store.log_drain
        self._recent.add(commit, batch, drain.commits if drain is not None else 0)
        if commit in batch.log:
            self._logged = commit
            if drain is not None:
                drain.expect(commit)

    def _measure(self, began: float) -> None:
        """Measure a commit that began then, and the time since its reports came."""
        ended = time.monotonic()
        self._meter.observe("farm_scheduler_commit_seconds", ended - began)
        if self._cycle_began is not None:
            self._meter.observe("farm_scheduler_cycle_seconds", ended - self._cycle_began)
            self._cycle_began, oldest = None, self._inbox.oldest
            self._meter.set(LAG, {(): 0.0 if oldest is None else max(0.0, time.time() - oldest)})

    def ask(self, question: Callable[[], T]) -> T:
        """Return the store's answer; what the farm wrote is put in the place of what it finds."""
        try:
            return self._call(question)
        except LostWritesError as lost:
            batch, self._batch = self._batch, Batch()
            self._cursor = self._restore(lost, batch, self._cursor)
            return self._call(question)

    def set_aside(self, error: Exception) -> None:
        """Keep the message that could not be handled, whole, and let no scheduler read it again."""
        if (letter := self._out.letter_of(error)) is not None:
            self._call(lambda: self._store.set_aside(letter))

    def look_at_keys(self) -> None:
        """Write the farm anew if a successor would miss something; a single run has none."""
        if self._stays is None:
            return
        jobs, builders = self._state_writer.stored, len(self._scheduler.builders)
        hosts = len(self._protocol.known_hosts)
        wanted, requested = self._requested
        with suppress(LostWritesError):  # what is still missing is found by the next look
            self.ask(lambda: self._store.look_at_keys(jobs, builders, hosts, wanted, requested))
            self._look_at_log()

    def _look_at_log(self) -> None:
        """Write again what someone has deleted of the event log before the disk had it.

        The table in ``farm.live.store.log_drain`` says what the other thread does.
        """
        drain = self._store.log_drain
        if drain is None or drain.commits >= self._logged:
            return
        if (gap := drain.gap) is None:
            drain.wake()
            return
        missing = {commit: lines for commit, lines in self._recent.lines().items() if commit > gap}
        words = (
            f"the Redis server has lost lines of the event log, of commits after {gap:,}: those of "
            f"{many(len(missing), 'commit')} are written again"
        )
        log.error("%s", words)
        self.ask(lambda: self._store.write_log_again(missing))
        drain.refilled()
        self._note_loss(words)

    def go_on(self, saved: SavedFarm, ends: Sequence[EndJob], restored: str) -> None:
        """Continue a restored farm; ``ends``: of jobs that the server may have lost.

        ``restored``: what the server had lost, in words; empty: nothing.
        """
        self.restored = self._restored_from_log = restored
        self._recent = Recent(ends)
        self._logged = saved.logged
        if self._store.log_drain is not None:
            self._store.log_drain.expect(saved.logged)
        self.ended.update(saved.counts.ended)
        self._state_writer.touch_all()

    def _write_for_successor(self, batch: Batch, *, anew: bool = False) -> None:
        """Add what changed (``anew``: all) of what the next scheduler needs beside jobs."""
        known = self._protocol.for_successor(anew=anew)
        for name, life in known.lives.items():
            if life is None:
                batch.gone_hosts.append(name)
                batch.lives.pop(name, None)
            else:
                batch.lives[name] = life
        before = {} if anew else self._for_successor
        self._for_successor = {
            "counts": counts_of(self._scheduler, known.accepted, self.ended),
            "wanted": known.wanted,
            "requested": known.outside,
        }
        self._requested = len(known.wanted), len(known.outside)
        for name, value in self._for_successor.items():
            if value != before.get(name):
                setattr(batch, name, value)

    def _restore(self, lost: LostWritesError, batch: Batch, cursor: Cursor) -> Cursor:
        """Write all that the server had, as it has lost some of it; hosts are asked again.

        This process remembers what matters: the live jobs and builders (in the scheduler's state,
        which ``StateWriter.forget`` makes all new to the store), the stories of the jobs that ended
        last and the lines of the event log that are not on disk (``Recent``), and what a successor
        needs (``_write_for_successor``). If the server loses its data again before that is done,
        all of it is written once more.

        Args:
            lost: what was lost.
            batch: what the commit was about to write.
            cursor: up to where the streams had been read.

        Returns the cursor from which the streams are read now.
        """
        while True:
            cursor = self._call(partial(self._inbox.begin_again, cursor))
            self._state_writer.forget()
            self._state_writer.write(batch)
            batch.log = self._recent.lines() | batch.log
            if self._stays is not None:
                self._write_for_successor(batch, anew=True)
            restore = partial(
                self._store.restore, batch, self._recent.ends, cursor, self._clock.now(), lost.keys
            )
            try:
                rewritten = self._call(restore)
            except LostWritesError as lost_again:
                lost = lost_again
                continue
            ended = self.ended.total() - len(batch.ended)
            live = len(self._scheduler.jobs)
            words = message_of(lost, live=live, again=rewritten, ended=ended)
            log.error("%s", words)
            # the log knows more of what the server had lost at the start
            self._note_loss(self._restored_from_log or words)
            self._restored_from_log = ""
            return cursor

    def _note_loss(self, restored: str) -> None:
        """Note that the server had lost what it had acknowledged, and was given it again."""
        self.restored = restored
        self._meter.add("farm_server_losses_total")


def counts_of(scheduler: Scheduler, serial: int, ended: Mapping[str, int]) -> Counts:
    """Return where the counting stands: the ``serial`` of the last job, ``ended`` by outcome."""
    return Counts(
        made=scheduler.keeper.made,
        taken_back=tuple(sorted(scheduler.keeper.taken_back)),
        made_by_pool={name: pool.made for name, pool in scheduler.keeper.pools.items()},
        serial=serial,
        ended=dict(ended),
        choices=scheduler.rules.choices,
        unsorted=scheduler.reorderer.unsorted,
        held=dict(scheduler.dispatcher.held),
        releases=scheduler.book.releases,
    )


class Recent:
    """What the last commits wrote: the stories of the jobs that ended last, ``ends`` among them.

    And the event log's lines until the disk has them.
    """

    def __init__(self, ends: Sequence[EndJob] = ()) -> None:
        self.ends = deque(ends, maxlen=max(REMEMBERED, len(ends)))
        self._lines: deque[tuple[int, LogLines]] = deque(maxlen=MAX_LOG)

    def add(self, commit: int, batch: Batch, on_disk: int) -> None:
        """Remember what a commit wrote; ``on_disk``: up to which commit the log is there."""
        self.ends.extend(batch.ended.values())
        if lines := batch.log.get(commit):
            self._lines.append((commit, lines))
        while self._lines and self._lines[0][0] <= on_disk:
            self._lines.popleft()

    def lines(self) -> dict[int, LogLines]:
        """Return lines of the event log that may not be on disk, by their commits."""
        return dict(self._lines)


def named(jobs: Sequence[str]) -> str:
    """Return how many jobs these are, and the names of some."""
    names = ", ".join(jobs[:NAMED])
    more = f" and {len(jobs) - NAMED:,} more" if len(jobs) > NAMED else ""
    return many(len(jobs), "job") + (f" ({names}{more})" if jobs else "")


def message_of(error: LostWritesError, *, live: int, again: list[EndJob], ended: int) -> str:
    """Report what was lost, and the consequences.

    ``live``: jobs that have not ended; ``again``: ended ones whose stories are written once more;
    ``ended``: how many have ended in all.
    """
    ends = named([end.job.id for end in again])
    what = f"{error}: {live:,} live jobs are written anew, and the stories of {ends} that had ended"
    if error.keys:
        return what
    gone = ended - len(again)
    if error.commits is None and gone > 0:
        what += f"; those of {gone:,} jobs that ended earlier are gone"
    return f"{what}; submissions since its last save that had not been read are lost, too"
