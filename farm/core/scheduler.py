"""The scheduler: a state machine that takes in events and returns commands.

It is the only writer of the farm's state. It reads no clock and uses no random numbers: the time
is written on the event, and the same events lead to the same commands in every world. This module
defines what each event means; ``dispatcher.py`` decides which job goes to which slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from farm.core import events
from farm.core.alarms import Alarms, Handler, followed_by
from farm.core.commands import IGNORED, NO_COMMANDS, Command, DrainBuilder, LoseBuilder
from farm.core.dispatching.choice import make_dispatcher
from farm.core.dispatching.matching import Lane
from farm.core.estimator import Estimator
from farm.core.events import Event
from farm.core.jobs.book import JobBook
from farm.core.jobs.cancelling import Canceller
from farm.core.jobs.reordering import Reorderer
from farm.core.jobs.requeueing import Requeuer
from farm.core.jobs.sorting import QueueSorter
from farm.core.model import Builder, Cause
from farm.core.pools.hopeless import Hopeless
from farm.core.pools.idleness import IdleTimers
from farm.core.pools.keeper import PoolKeeper
from farm.core.pools.planned_losses import PlannedLosses
from farm.core.pools.platform_grace import PlatformGrace
from farm.core.pools.retirement import builders_to_stop
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.state import BuilderState, JobState, JobStatus

_WAITING, _DISPATCHED = JobStatus.WAITING, JobStatus.DISPATCHED
_RUNNING, _CANCELLING = JobStatus.RUNNING, JobStatus.CANCELLING
_CAUSES = {"succeeded": Cause.FINISHED, "failed": Cause.FAILED}


class Scheduler:
    """Decides everything in the farm: ``handle(event) -> commands``.

    ``pools`` are those that it keeps at their size; builders of other pools come and go by
    themselves.
    """

    def __init__(
        self, rules: SchedulingRules, estimator: Estimator, pools: Iterable[PoolSpec] = ()
    ) -> None:
        self.estimator = estimator
        self.builders: dict[str, BuilderState] = {}
        self.keeper = PoolKeeper(pools, self.builders)
        self.pools, self.pool = self.keeper.pools, self.keeper.counts
        specs = self.keeper.specs.values()
        self._alarms = Alarms()
        self._idle = IdleTimers(specs, self.builders, self._alarms)
        self._losses = PlannedLosses(specs, self.builders, self._alarms)
        self.dispatcher = make_dispatcher(rules, estimator)
        self.dispatcher.on_idle = self._idle.watch
        self.dispatcher.ask_alarm = self._alarms.ask
        self.book = JobBook(rules, estimator, self.dispatcher)
        self.canceller = Canceller(self.book, self.dispatcher)
        self.reorderer = Reorderer(self.book, self.dispatcher, self._alarms)
        self.requeuer = Requeuer(self.book, self.dispatcher, self.canceller)
        #: live jobs by id; ended ones are removed
        self.jobs = self.book.by_id
        self._hopeless = Hopeless(self.canceller, self.builders, self.keeper, self._alarms)
        self._learns = estimator.learns
        self._handlers: dict[type, Handler] = {
            events.FarmOpened: self._on_opened,
            events.ArrivalsEnded: self._on_arrivals_ended,
            events.JobsSubmitted: self._on_submitted,
            events.JobStarted: self._on_started,
            events.JobFinished: self._on_finished,
            events.CancelRequested: self._on_cancel,
            events.PriorityChanged: self.reorderer.change_priority,
            events.SchedulingChanged: self.reorderer.change_rules,
            events.BuilderJoined: self._on_builder_joined,
            events.SlotCleaned: self._on_slot_cleaned,
            events.DrainRequested: self._on_drain,
            events.UndrainRequested: self._on_undrain,
            events.BuilderRetired: self._on_builder_retired,
            events.BuilderLost: self._on_builder_lost,
            events.AttemptLost: self._on_attempt_lost,
            events.LoadReported: self._on_load,
            events.AlarmRang: self._on_alarm,
            events.PoolPlanned: self._on_planned,
            events.EstimateMade: _only_recorded,
        }
        if rules.platform_grace is not None:
            watch = PlatformGrace(rules.platform_grace, self.canceller, self.keeper, self._alarms)
            watch.follow(self._handlers)
        if rules.sort_every is not None and estimator.learns:  # else no key would change
            sorter = QueueSorter(rules.sort_every, self.book, self.reorderer, self._alarms)
            sorter.follow(self._handlers)

    @property
    def rules(self) -> SchedulingRules:
        """The current scheduling rules."""
        return self.book.rules

    def handle(self, event: Event) -> Sequence[Command]:
        """Handle one event; return the commands in the order in which to carry them out.

        A stale event (a late or repeated report) returns ``IGNORED``.
        """
        return self._handlers[type(event)](event)

    # --- jobs -------------------------------------------------------------------------------

    def _on_submitted(self, event: events.JobsSubmitted) -> Sequence[Command]:
        at = event.at
        commands: list[Command] = []
        if len(event.jobs) == 1:
            state = self.book.take_in(event.jobs[0], at)
            if state is None:
                return IGNORED
            if state.leader is None:
                self.dispatcher.arrive(state, at, commands)
            return commands or NO_COMMANDS
        lanes: dict[int, Lane] = {}
        states = [s for job in event.jobs if (s := self.book.take_in(job, at)) is not None]
        if not states:
            return IGNORED
        for state in states:
            if state.leader is None:
                lane = state.lane
                self.dispatcher.wait(state, lane, at)
                lanes[id(lane)] = lane
        self.dispatcher.fill_lanes(lanes.values(), at, commands)
        return commands or NO_COMMANDS

    def _on_started(self, event: events.JobStarted) -> Sequence[Command]:
        state = self._attempt(event)
        if state is None or state.status is not _DISPATCHED:
            return IGNORED
        state.status = _RUNNING
        state.started_at = event.at
        return NO_COMMANDS

    def _on_finished(self, event: events.JobFinished) -> Sequence[Command]:
        state = self._attempt(event)
        if state is None or (slot := state.slot) is None:
            return IGNORED
        at, outcome = event.at, event.outcome
        if state.started_at is None:
            state.started_at = state.dispatched_at
        commands: list[Command] = []
        if outcome == "cancelled" and state.status is not _CANCELLING:
            self.requeuer.void(slot, at, event.reason or "given up by its builder", commands)
            return commands
        if self._learns and outcome != "cancelled":
            elapsed = at - (state.started_at or 0.0)
            self.estimator.learn(state.job, slot.builder.builder, elapsed, outcome)
        if outcome == "failed" and (failures := self.rules.failures) is not None:
            self.requeuer.judge(state, slot, failures, at, event.reason, commands)
            return commands
        if outcome == "succeeded":
            slot.builder.failures = 0
        if self.dispatcher.watched:
            queue = state.lane.queue
            queue.ended(state, slot, at, completed=outcome != "cancelled")
        if outcome == "cancelled":
            cause, reason = state.cause, event.reason or state.reason
        else:
            cause, reason = _CAUSES[outcome], event.reason
        if state.followers or state.abandoned:
            self.book.end_all(state, at, outcome, cause, reason, commands)
        else:
            commands.append(self.book.end(state, at, outcome, cause, reason))
        if outcome == "failed":
            self.canceller.fail_fast(at, commands)
        self.dispatcher.attempt_over(slot, at, commands)
        return commands

    def _on_attempt_lost(self, event: events.AttemptLost) -> Sequence[Command]:
        state = self._attempt(event)
        if state is None or (slot := state.slot) is None:
            return IGNORED
        commands: list[Command] = []
        self.requeuer.void(slot, event.at, event.reason or "its builder does not know it", commands)
        return commands

    def _on_cancel(self, event: events.CancelRequested) -> Sequence[Command]:
        wanted = [state for name in event.jobs if (state := self.jobs.get(name)) is not None]
        if event.matrix is not None:
            wanted.extend(self.book.of_matrix(event.matrix))
        if (path := event.invocation) is not None:
            wanted.extend(s for s in self.jobs.values() if s.path[: len(path)] == path)
        commands: list[Command] = []
        reason = event.reason or event.cause.text
        self.canceller.cancel(wanted, event.at, event.cause, reason, commands)
        return commands or IGNORED

    # --- builders ---------------------------------------------------------------------------

    def _on_builder_joined(self, event: events.BuilderJoined) -> Sequence[Command]:
        builder, at = event.builder, event.at
        if builder.id in self.builders:
            return IGNORED
        self.pool(builder.pool).requested.pop(builder.id, None)
        state = self.add_builder(builder, at)
        commands: list[Command] = []
        if builder.takes_jobs:
            state.pool.opens(state)
            self.dispatcher.open_builder(state, at, commands)
        self._watch_idleness(state, commands)
        return commands or NO_COMMANDS

    def add_builder(self, builder: Builder, at: float) -> BuilderState:
        """Add a builder, without offering its slots yet."""
        pool = self.pool(builder.pool)
        pool.builders += 1
        pool.slots += builder.slots
        builder = self.keeper.numbered(builder)
        group = self.dispatcher.matching.group(builder)
        state = self.builders[builder.id] = BuilderState(
            builder, at, at, group=group, pool=pool, lanes=group.lanes
        )
        self._idle.joined(state)
        group.free.register(state)
        return state

    def _on_slot_cleaned(self, event: events.SlotCleaned) -> Sequence[Command]:
        state = self.builders.get(event.builder)
        if state is None or not 0 <= event.slot < len(state.slots):
            return IGNORED
        if not state.slots[event.slot].cleaning:
            return IGNORED
        slot = state.slots[event.slot]
        slot.cleaning = False
        commands: list[Command] = []
        self.dispatcher.slot_ready(slot, state, event.at, commands)
        return commands or NO_COMMANDS

    def _watch_idleness(self, state: BuilderState, commands: list[Command]) -> None:
        if not (state.timed or state.busy or state.draining):
            self._idle.watch(state, commands)

    def _on_drain(self, event: events.DrainRequested) -> Sequence[Command]:
        found = self._named(event.pattern)
        commands: list[Command] = []
        for state in found:
            commands.extend(self._drain(state, event.at, retire=event.retire))
        self.dispatcher.look_again(event.at, commands)
        return commands or (NO_COMMANDS if found else IGNORED)

    def _drain(self, state: BuilderState, at: float, *, retire: bool) -> list[Command]:
        """Let a builder finish its running jobs and take no more."""
        commands: list[Command] = []
        self.dispatcher.take_no_more(state, at)
        state.draining = True
        state.retiring = state.retiring or retire
        self.dispatcher.retire_if_empty(state, commands)
        return commands

    def _on_undrain(self, event: events.UndrainRequested) -> Sequence[Command]:
        commands: list[Command] = []
        named = self._named(event.pattern)
        found = [s for s in named if (s.draining or s.failed) and not s.retiring]
        for state in found:
            state.draining = state.failed = False
            state.failures = 0
            state.accepts = state.builder.takes_jobs
            if not state.accepts:
                continue
            state.pool.opens(state)
            state.active_at = event.at  # free again from now on
            self.dispatcher.open_builder(state, event.at, commands)
            self._watch_idleness(state, commands)
        return commands or (NO_COMMANDS if found else IGNORED)

    def _on_builder_retired(self, event: events.BuilderRetired) -> Sequence[Command]:
        return self._gone(event.builder, event.at, "its builder retired")

    def _on_builder_lost(self, event: events.BuilderLost) -> Sequence[Command]:
        reason = event.reason or "its builder was lost"
        return self._gone(event.builder, event.at, reason, lost=True, excused=event.excused)

    def _gone(
        self, name: str, at: float, reason: str, *, lost: bool = False, excused: bool = False
    ) -> Sequence[Command]:
        """Remove a builder; its jobs return to their places in the queue, or fail for good."""
        state = self.builders.pop(name, None)
        if state is None:
            return self._never_came(name, at)
        pool = state.pool
        pool.builders -= 1
        pool.slots -= len(state.slots)
        pool.busy_slots -= state.busy
        pool.stopping -= state.retired
        if state.accepts:
            pool.closes(state)
        self.dispatcher.close(state, at, gone=True)
        state.retired = True
        commands: list[Command] = []
        lanes: dict[int, Lane] = {}
        for slot in state.slots:
            if lost and not excused:
                self.requeuer.note_loss(slot)
            lane = self.requeuer.give_back(slot, at, reason, commands, excused or None)
            slot.running = None
            if lane is not None:
                lanes[id(lane)] = lane
        self.canceller.fail_fast(at, commands)
        self.dispatcher.fill_lanes(lanes.values(), at, commands)
        self.dispatcher.look_again(at, commands)
        self.keeper.replace(pool, at, commands)
        return commands or NO_COMMANDS

    def _never_came(self, name: str, at: float) -> Sequence[Command]:
        """Remove a requested builder that did not boot."""
        commands: list[Command] = []
        for pool in self.pools.values():
            if pool.requested.pop(name, None) is not None:
                self.keeper.replace(pool, at, commands)
                return commands or NO_COMMANDS
        return IGNORED

    def _on_load(self, event: events.LoadReported) -> Sequence[Command]:
        state = self.builders.get(event.builder)
        if state is None:
            return IGNORED
        commands: list[Command] = []
        self.dispatcher.load_reported(state, event.overloaded, event.at, commands)
        return commands or NO_COMMANDS

    # --- the farm as a whole ----------------------------------------------------------------

    def _on_opened(self, event: events.FarmOpened) -> Sequence[Command]:
        commands: list[Command] = []
        self.reorderer.finish(event.at)  # a restored scheduler's is finished
        self.keeper.open(event.at, commands, provisioned=event.provisioned)
        for state in self.builders.values():
            self._watch_idleness(state, commands)
        self._losses.open(event.at)
        self._losses.lose(event.at, commands)
        return commands or NO_COMMANDS

    def _on_planned(self, event: events.PoolPlanned) -> Sequence[Command]:
        at, commands = event.at, list[Command]()
        self.keeper.request(event.pool, event.start, at, commands, outside=event.outside)
        if event.stop:
            kills = self.keeper.kills(event.pool)
            for state in builders_to_stop(self.builders.values(), event.pool, event.stop):
                if state.busy:
                    end = LoseBuilder if kills else DrainBuilder
                    commands.append(end(state.builder.id))
                if not (state.busy and kills):
                    commands.extend(self._drain(state, at, retire=True))
            self.dispatcher.look_again(at, commands)
        return commands or NO_COMMANDS

    def _on_alarm(self, event: events.AlarmRang) -> Sequence[Command]:
        at, commands = event.at, list[Command]()
        self._alarms.rang(at)
        self.dispatcher.alarm_rang(at, commands)
        for state in self._idle.due(at):
            commands.extend(self._drain(state, at, retire=True))
        self._idle.ask(commands)
        self._losses.lose(at, commands)
        self.reorderer.go_on(at, commands)
        return commands or NO_COMMANDS

    def _on_arrivals_ended(self, event: events.ArrivalsEnded) -> Sequence[Command]:
        """From now on, fail hopeless jobs after each event that may make a job hopeless."""
        if self._hopeless.watches:
            return IGNORED
        self._hopeless.watches = True
        for kind in self._handlers.keys() - _LEAVE_HOPE:
            self._handlers[kind] = followed_by(self._handlers[kind], self._hopeless.give_up)
        return self._hopeless.give_up(event.at) or NO_COMMANDS

    # --- look-up ----------------------------------------------------------------------------

    def _attempt(
        self, event: events.JobStarted | events.JobFinished | events.AttemptLost
    ) -> JobState | None:
        """Return the job of this report, if its attempt is still the current one."""
        state = self.jobs.get(event.job)
        if state is None or state.attempts != event.attempt or (slot := state.slot) is None:
            return None
        return state if slot.builder.builder.id == event.builder else None

    def _named(self, pattern: str) -> list[BuilderState]:
        return [s for name, s in self.builders.items() if fnmatchcase(name, pattern)]


_LEAVE_HOPE = {events.JobStarted, events.LoadReported, events.EstimateMade}
"""Events that cannot make a waiting job hopeless."""


def _only_recorded(_: Event) -> Sequence[Command]:
    """Accept an event that is only recorded in the event log."""
    return NO_COMMANDS
