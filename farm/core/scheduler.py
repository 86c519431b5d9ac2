"""The scheduler: a state machine that takes in events and returns commands.

It is the only writer of the farm's state. It reads no clock and uses no random numbers: the time
is written on the event, and the same events lead to the same commands in every world. This module
defines what each event means (of builders: ``pools/builder_book.py``); ``dispatcher.py`` decides
which job goes to which slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from farm.core import events
from farm.core.alarms import Alarms, Handler, look_after
from farm.core.commands import IGNORED, NO_COMMANDS, Command, Out, StaleEventError
from farm.core.contention.work_meter import WorkMeter
from farm.core.dispatching.dispatcher import Dispatcher
from farm.core.dispatching.fastest import FastestRule
from farm.core.dispatching.heavy_light import HeavyLightRule
from farm.core.dispatching.holding import HoldRule
from farm.core.dispatching.matching import Lane, Matching
from farm.core.events import Event
from farm.core.jobs.blocking import BlockedJobs
from farm.core.jobs.book import JobBook
from farm.core.jobs.cancelling import Canceller
from farm.core.jobs.groups import group_of, turn_of
from farm.core.jobs.reordering import SORTED_AFTER, QueueSorter, Reorderer
from farm.core.jobs.requeueing import Requeuer
from farm.core.model import Cause
from farm.core.pools.builder_book import BuilderBook
from farm.core.pools.idleness import IdleTimers
from farm.core.pools.keeper import PoolKeeper
from farm.core.pools.planned_losses import PlannedLosses
from farm.core.pools.spec import PoolSpec
from farm.core.pools.unrunnable_jobs import CANCELLING, WATCHED, PlatformGrace, UnrunnableJobs
from farm.core.rules import Choices, EndedAttempt, Estimator, SchedulingRules, teach
from farm.core.state.working_state import BuilderState, JobState, JobStatus, Slot

_ARRIVING, _DISPATCHED = JobStatus.ARRIVING, JobStatus.DISPATCHED
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
        self._out: Out = []
        self._alarms = alarms = Alarms(self._out)
        self.keeper = PoolKeeper(pools, self.builders, self._out)
        self.pools, self.pool = self.keeper.pools, self.keeper.counts
        specs = self.keeper.specs.values()
        self._idle = IdleTimers(specs, self.builders, alarms)
        self._losses = PlannedLosses(specs, self.builders, alarms, self._out)
        self.dispatcher = Dispatcher(rules, _hold_rule(rules, estimator, alarms), alarms, self._out)
        self.dispatcher.size_sent = getattr(estimator, "size_sent", None)
        self.dispatcher.on_idle = self._idle.watch
        self.book = JobBook(rules, estimator, self.dispatcher, self._out)
        self.blocked = BlockedJobs(self.book, alarms)
        self.canceller = Canceller(self.book, self.blocked)
        self.reorderer = Reorderer(self.book, alarms)
        self.requeuer = Requeuer(self.canceller)
        self.builder_book = BuilderBook(
            self.builders, self.keeper, self.requeuer, self._idle, self._out
        )
        #: live jobs by id; ended ones are removed
        self.jobs = self.book.by_id
        self.unrunnable = UnrunnableJobs(self.canceller, self.keeper, alarms)
        self._learns = estimator.learns
        #: the work of running attempts that slow each other down
        self.meter = WorkMeter({spec.name: spec.law for spec in specs if spec.law is not None})
        self._handlers: dict[type, Handler] = {
            events.FarmOpened: self._on_opened,
            events.ArrivalsEnded: self._on_arrivals_ended,
            events.JobsSubmitted: self._on_submitted,
            events.JobStarted: self._on_started,
            events.JobFinished: self._on_finished,
            events.CancelRequested: self._on_cancel,
            events.PriorityChanged: self.reorderer.change_priority,
            events.SchedulingChanged: self._on_scheduling_changed,
            events.BuilderJoined: self.builder_book.joined,
            events.SlotCleaned: self.builder_book.slot_cleaned,
            events.DrainRequested: self.builder_book.drain,
            events.UndrainRequested: self.builder_book.undrain,
            events.BuilderRetired: self._on_gone,
            events.BuilderLost: self._on_gone,
            events.AttemptLost: self._on_attempt_lost,
            events.LoadReported: self.builder_book.load_reported,
            events.AlarmRang: self._on_alarm,
            events.PoolPlanned: self._on_planned,
            events.EstimateMade: _only_recorded,
        }
        #: what looks at waiting jobs after events, and so after releases
        self._lookers: list[Callable[[float], None]] = [self._give_up]
        if rules.platform_grace is not None:
            watch = PlatformGrace(rules.platform_grace, self.canceller, self.keeper, alarms)
            look_after(WATCHED, self._handlers, watch.look)
            look_after(CANCELLING, self._handlers, watch.forget_idle)
            self._lookers.append(watch.look)
        if rules.sort_every is not None and estimator.learns:  # else no key would change
            sorter = QueueSorter(rules.sort_every, self.book, self.reorderer, alarms)
            look_after(SORTED_AFTER, self._handlers, sorter.look)
            self._lookers.append(sorter.look)

    @property
    def rules(self) -> SchedulingRules:
        """The current scheduling rules."""
        return self.book.rules

    @property
    def own_functions(self) -> tuple[object, ...]:
        """What may be the user's own code: the present policy, the balancer, the estimator."""
        return self.rules.policy, self.rules.ranking, self.estimator

    def handle(self, event: Event) -> Sequence[Command]:
        """Handle one event; return the commands in the order in which to carry them out.

        A stale event (a late or repeated report) returns ``IGNORED``.
        """
        out = self._out
        if out:
            out.clear()
        try:
            self._handlers[type(event)](event)
            if self.blocked.active:
                self._follow(event.at)
        except StaleEventError:
            return IGNORED
        return out.copy() if out else NO_COMMANDS

    # --- jobs -------------------------------------------------------------------------------

    def _on_submitted(self, event: events.JobsSubmitted) -> None:
        at = event.at
        first = event.jobs[0]
        if len(event.jobs) == 1 and not first.needs and first.group is None:
            state = self.book.take_in(first, at)
            if state is None:
                raise StaleEventError
            if state.leader is None:
                self.dispatcher.arrive(state, at)
            return
        states = [s for job in event.jobs if (s := self.book.take_in(job, at)) is not None]
        if not states:
            raise StaleEventError
        # in this order: what needs others takes no place yet; what is superseded frees its place
        # before others ask for one; and only what has a place is offered to builders
        if self.book.needing:
            self.blocked.submitted(states, event.ended, at)
        if self.book.groups:
            self._supersede(states, at)
            self._take_places(states, at)
        lanes: dict[int, Lane] = {}
        for state in states:
            is_over = self.jobs.get(state.job.id) is not state
            if is_over or state.leader is not None or state.status is not _ARRIVING:
                continue
            lane = state.lane
            self.dispatcher.wait(state, lane, at)
            lanes[id(lane)] = lane
        self.dispatcher.fill_lanes(lanes.values(), at)
        if self.book.groups:
            self.blocked.put_in_order()

    def _on_started(self, event: events.JobStarted) -> None:
        state, slot = self._attempt(event)
        if state.status is not _DISPATCHED:
            raise StaleEventError
        state.status = _RUNNING
        state.started_at = event.at
        self.meter.started(slot.builder.builder, state.job, event.at)

    def _on_finished(self, event: events.JobFinished) -> None:
        state, slot = self._attempt(event)
        at, outcome = event.at, event.outcome
        if state.started_at is None:
            state.started_at = state.dispatched_at
        work = self.meter.ended(event.builder, event.job, at)
        if outcome == "cancelled" and state.status is not _CANCELLING:
            self.requeuer.void(slot, at, event.reason or "given up by its builder")
            return
        if self._learns and outcome != "cancelled":
            builder, began_at = slot.builder.builder, state.started_at or 0.0
            ended = EndedAttempt(state.job, builder, began_at, at, outcome, work)
            teach(self.estimator, ended)
        if outcome == "failed" and self.rules.max_resets is not None:
            self.requeuer.judge(state, slot, at, event.reason)
            return
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
            self.book.end_all(state, at, outcome, cause, reason)
        else:
            self.book.end(state, at, outcome, cause, reason)
        if outcome == "failed":
            self.canceller.fail_fast(at)
        if self.blocked.active:  # a job that is released now may be the best for the slot
            self.blocked.follow(at)
        self.dispatcher.attempt_over(slot, at)

    def _supersede(self, states: Sequence[JobState], at: float) -> None:
        """Cancel what newer runs of groups cancel; a job of an older run is not even queued."""
        groups = {group_of(state.job.group) for state in states if state.job.group is not None}
        for name in sorted(group.name for group in groups if group.mode == "cancel"):
            members = self.book.groups.get(name)
            newest = None if members is None else members.newest_cancelling()
            if members is None or newest is None:
                continue
            older = members.older_than(newest)
            self.canceller.cancel(older, at, Cause.SUPERSEDED, f"superseded by {newest}")

    def _take_places(self, states: Sequence[JobState], at: float) -> None:
        """Let jobs take their places in groups, or be held back."""
        for state in sorted(states, key=turn_of):
            is_live = self.jobs.get(state.job.id) is state
            if is_live and state.job.group is not None and state.status is _ARRIVING:
                self.blocked.admit_or_hold(state, at)

    def _follow(self, at: float) -> None:
        """Release and skip jobs that needed those which have ended, until nothing changes."""
        blocked = self.blocked
        blocked.follow(at)
        while blocked.changed:
            blocked.changed = False
            for look in self._lookers:
                look(at)
            blocked.follow(at)
        if self.unrunnable.watches and blocked.states:
            self.unrunnable.give_up_those_that_wait_for_each_other(at)
        blocked.active = bool(blocked.states)

    def _give_up(self, at: float) -> None:
        if self.unrunnable.watches:
            self.unrunnable.give_up(at)

    def _on_attempt_lost(self, event: events.AttemptLost) -> None:
        _, slot = self._attempt(event)
        self.meter.ended(event.builder, event.job, event.at)
        self.requeuer.void(slot, event.at, event.reason or "its builder does not know it")

    def _on_gone(self, event: events.BuilderRetired | events.BuilderLost) -> None:
        self.builder_book.gone(event)
        self.meter.gone(event.builder)

    def _on_cancel(self, event: events.CancelRequested) -> None:
        wanted = [state for name in event.jobs if (state := self.jobs.get(name)) is not None]
        if event.matrix is not None:
            wanted.extend(self.book.of_matrix(event.matrix))
        if (path := event.invocation) is not None:
            wanted.extend(s for s in self.jobs.values() if s.path[: len(path)] == path)
        reason = event.reason or event.cause.text
        self.canceller.cancel(wanted, event.at, event.cause, reason)
        if not self._out:
            raise StaleEventError

    # --- the farm as a whole ----------------------------------------------------------------

    def _on_opened(self, event: events.FarmOpened) -> None:
        self.reorderer.finish(event.at)  # a restored scheduler's is finished
        self.keeper.open(event.at, provisioned=event.provisioned)
        if event.resized:
            self._refill(event.at)
        for state in self.builders.values():
            self.builder_book.watch_idleness(state)
        self._losses.open(event.at)
        if self.blocked.active:
            self.blocked.go_on(event.at)
        self.dispatcher.resume(event.at)

    def _on_scheduling_changed(self, event: events.SchedulingChanged) -> None:
        if not (event.pools or {}).keys() <= self.keeper.specs.keys():
            raise StaleEventError
        self.reorderer.change_rules(event)
        if event.pools:
            self.keeper.resize(self.rules.choices.pools)
            self._refill(event.at)

    def adopt(self, choices: Choices) -> None:
        """Go by these choices from now on, as an earlier scheduler of the farm did."""
        self.reorderer.adopt(choices)
        self.keeper.resize(choices.pools)

    def _refill(self, at: float) -> None:
        """Bring fixed pools to their sizes: request what they miss, stop what is too many.

        Of too many, requests are taken back first, and only the rest are builders that are there.
        """
        self.keeper.open(at, provisioned=False)
        for pool, count in self.keeper.shrink().items():
            self.builder_book.stop(pool, count, at)

    def _on_planned(self, event: events.PoolPlanned) -> None:
        self.keeper.grow(event)
        self.builder_book.stop(event.pool, event.stop, event.at)

    def _on_alarm(self, event: events.AlarmRang) -> None:
        at = event.at
        self._alarms.rang(at)
        if self.blocked.active:
            self.blocked.go_on(at)
        self.dispatcher.alarm_rang(at)
        for state in self._idle.due(at):
            self.dispatcher.drain(state, at)
        self._idle.ask()
        self._losses.lose(at)
        self.reorderer.go_on(at)

    def _on_arrivals_ended(self, event: events.ArrivalsEnded) -> None:
        """From now on, cancel unrunnable jobs after each event that may make a job unrunnable."""
        if self.unrunnable.watches:
            raise StaleEventError
        self.unrunnable.watches = True
        others = self._handlers.keys() - _KEEP_RUNNABLE
        look_after(others, self._handlers, self.unrunnable.give_up)
        self.unrunnable.give_up(event.at)

    # --- look-up ----------------------------------------------------------------------------

    def _attempt(
        self, event: events.JobStarted | events.JobFinished | events.AttemptLost
    ) -> tuple[JobState, Slot]:
        """Return job and slot of this report, if its attempt is still the current one."""
        state = self.jobs.get(event.job)
        if state is None or state.attempts != event.attempt or (slot := state.slot) is None:
            raise StaleEventError
        if slot.builder.builder.id != event.builder:
            raise StaleEventError
        return state, slot


_KEEP_RUNNABLE = {events.JobStarted, events.LoadReported, events.EstimateMade}
"""Events that cannot make a waiting job unrunnable."""


def _only_recorded(_: Event) -> None:
    """Accept an event that is only recorded in the event log."""


def _hold_rule(rules: SchedulingRules, estimator: Estimator, alarms: Alarms) -> HoldRule:
    """Return by what jobs are held back; most balancers only need a ranking."""
    if rules.heavy_light is not None:
        return HeavyLightRule(rules, rules.heavy_light, alarms)
    if rules.by_speed:
        return FastestRule(rules, estimator, alarms)
    return HoldRule(Matching(rules.ranking, rules.make_queue), alarms)
