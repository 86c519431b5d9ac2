"""The control plane of a live scheduler: reports and answers to questions.

It is an observer and is called between batches of events. It writes what provisioners and
operators read; the scheduler's state itself is written by the store.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from farm.core import events
from farm.core.commands import Command, EndJob, RequestBuilder
from farm.core.events import Event, PoolSize
from farm.core.pools.observer import PoolObserver
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import count_builders, snapshot_of, trees_of
from farm.forecasts.dispatch.calibration import ForecastCalibration
from farm.forecasts.dispatch.recent_arrivals import MOST_JOBS, ArrivalMemory
from farm.forecasts.dispatch.recent_errors import RecentErrors
from farm.live.operating.answering import Questions, Rollouts
from farm.live.operating.answers import BUSY, FarmImage, as_chosen
from farm.live.operating.images import Images
from farm.live.regular_work import WakeupForecast
from farm.live.store.saved import SchedulerMemory, statistics_of
from farm.live.wire import messages as wire
from farm.live.wire.pool_report import FarmStatus, LostBuilder, PoolReport
from farm.live.wire.report_checks import readable
from farm.live.world import LiveWorld
from farm.scenario import Scenario

#: real seconds between reports; more if they are costly (at most a 20th of the time), up to what
#: leaves the farm's status fresh (client.FRESH)
REPORT_INTERVAL, MAX_REPORT_INTERVAL = 0.2, 5.0
SHARE = 20
#: … where nothing has happened since the last one: only farm time has changed
REST_INTERVAL = 2.0
#: how many lost builders are remembered, and for how many real seconds
LOST_SHOWN = 100
LOST_TIME = 600.0
MINUTE = 60.0
#: answers per turn, refusals among them; who asks beyond that gets none
MAX_ANSWERS = 300
SAVING_INTERVAL = 2.0
#: what an operator changes, and asks about next: an older image says nothing of it
CHANGES = (events.DrainRequested, events.UndrainRequested, events.SchedulingChanged)


class ControlPlane:
    """Publishes the farm's state and answers questions. Used from the scheduler's thread.

    Args:
        farm: whose scheduler this is.
        scenario: what the farm was made from: published, and a part of its images.
        long_lived: operators submit jobs: an id can be used only once, and ``keep_ended`` jobs that
            have ended are kept.
        rollouts: answer when a job will start; None: the formula does.
        calibrations: of these estimates, by the source of their run times.
        learned: what an earlier scheduler, which has been restored, knew of the past.
    """

    def __init__(
        self,
        farm: LiveWorld,
        scheduler: Scheduler,
        scenario: Scenario,
        *,
        long_lived: bool = False,
        keep_ended: int = 100_000,
        rollouts: Rollouts | None = None,
        calibrations: Mapping[str, ForecastCalibration] | None = None,
        learned: SchedulerMemory | None = None,
    ) -> None:
        self._farm, self._scheduler, self._scenario = farm, scheduler, scenario
        self._protocol, self._clock, self._notices = farm.protocol, farm.clock, farm.notices
        self._out = farm.out
        self._long_lived = long_lived
        self._keep_ended = keep_ended
        self._calibrations = calibrations or {}
        self._lately = RecentErrors(self._waits)
        if learned is not None:
            self._lately.memory = learned.lately
            for name in self._calibrations.keys() & learned.calibrations.keys():
                self._calibrations[name].load(learned.calibrations[name])
        self._arrivals = ArrivalMemory(MOST_JOBS)
        self._images = Images()
        self._questions = Questions(
            scheduler,
            self._clock.now,
            lambda asked, found: self._notices.reply(found, asked.reply_to),
            self._protocol.progress_of,
            rollouts,
            self._lately.of,
        )
        farm.add_step(self._questions.step)
        self._wakeups = WakeupForecast()
        self._next_saving = 0.0
        self._next_report = 0.0
        #: before this (real) no report is made, as one costs much
        self._not_before = 0.0
        #: when the last report was made (real, and farm time), and whether anything happened since
        #: then, and since what was learned was saved
        self._reported_at = 0.0
        self._reported_farm_at = 0.0
        self._is_news = True
        self._is_unsaved = True
        #: changes of hosts and plans that are in the last report, and of plans alone
        self._changes, self._plans = (0, 0), 0
        #: more ended jobs than are kept were left by the last step
        self._is_surplus = False
        self._ended_at: deque[float] = deque()
        #: of the builders that are present or requested
        self._pool_of = {name: s.builder.pool for name, s in scheduler.builders.items()}
        for pool in scheduler.pools.values():
            self._pool_of.update(dict.fromkeys(pool.requested, pool.name))
        self._lost: deque[tuple[float, LostBuilder]] = deque(maxlen=LOST_SHOWN)

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Count ended jobs and remember lost builders (as an observer of the run)."""
        self._is_news = self._is_unsaved = True
        self._lately.observe(event, commands)
        self._arrivals.observe(event)
        if isinstance(event, CHANGES):
            self._images.outdate()
        if isinstance(event, events.BuilderJoined):
            self._pool_of[event.builder.id] = event.builder.pool
        elif isinstance(event, events.BuilderRetired | events.BuilderLost):
            pool = self._pool_of.pop(event.builder, None)
            if pool is not None and isinstance(event, events.BuilderLost) and not event.excused:
                lost = LostBuilder(event.builder, event.at, event.reason, pool)
                self._lost.append((time.monotonic(), lost))
        for command in commands:
            if isinstance(command, EndJob) and command.outcome != "cancelled":
                self._ended_at.append(time.monotonic())
            elif isinstance(command, RequestBuilder):
                self._pool_of[command.builder.id] = command.builder.pool

    # --- for a provisioner ------------------------------------------------------------------

    def add(self, message: wire.PlannerReport | wire.Ask) -> None:
        """Take a plan, or a question, as if it had come over the wire."""
        self._protocol.take(message, self._clock.now())

    @property
    def builders_to_host(self) -> int:
        """How many builders hosts play, or are to play."""
        return self._protocol.builders_to_host

    def reports(self, pools: Iterable[str]) -> dict[str, PoolReport]:
        """Return how these pools stand now, by name."""
        joined = defaultdict[str, list[str]](list)
        for name, state in self._scheduler.builders.items():
            joined[state.builder.pool].append(name)
        counts = count_builders(self._scheduler)
        states = {name: counts.get(name, {"booting": 0}) for name in pools}
        return {name: self._report_on(name, states[name], joined[name]) for name in states}

    def _report_on(self, name: str, states: dict[str, int], joined: Sequence[str]) -> PoolReport:
        scheduler, spec = self._scheduler, self._scheduler.keeper.specs[name]
        watch, plan, unplaced, elsewhere = self._protocol.standing(name)
        closely = watch is not None and watch.closely
        return PoolReport(
            snapshot=PoolObserver(scheduler, spec, closely=closely).look(self._clock.now()),
            watcher=watch.token if watch else "",
            heard=plan.serial if plan else 0,
            requested={n: r.at for n, r in scheduler.pool(name).requested.items()},
            joined=tuple(joined),
            elsewhere=elsewhere,
            states=states,
            closely=closely,
            outside=watch is not None and watch.outside,
            provisioned=spec.provisioned,
            processors=spec.processors,
            virtualized=spec.virtualized,
            boot_time=spec.boot_time,
            speed=self._clock.speed,
            least=spec.builders,
            most=spec.max,
            chosen=scheduler.rules.choices.pools.get(name, PoolSize()),
            unplaced=unplaced,
            desired=plan.desired if plan else (None if spec.provisioned else spec.builders),
            why=readable(plan.why) if plan else "",
            plan_least=plan.least if plan else 0,
            plan_most=plan.most if plan else None,
            period=readable(plan.period) if plan else "",
        )

    # --- turns ------------------------------------------------------------------------------

    def turn(self) -> float:
        """Answer and report, between batches of events; return when the next turn is due (real)."""
        now = time.monotonic()
        self._wakeups.come(now)
        if self._long_lived:
            self._keep_learned(now)
        _, plans = self._protocol.changes
        if plans != self._plans:
            # their events have been handled: an earlier report would have a provisioner plan twice
            self._plans, self._next_report = plans, 0.0
        if now >= self._report_due() or self._may_report_early(now):
            began = time.thread_time()  # a machine that keeps us waiting is no cost of the report
            self._report(now)
            cost = min(SHARE * (time.thread_time() - began), MAX_REPORT_INTERVAL)
            self._not_before = now + cost
            self._next_report = now + max(REPORT_INTERVAL, cost)
        return min(self._answer(), self._report_due())

    def _report_due(self) -> float:
        """Return when the next report is to be made (real)."""
        is_news = self._is_news or self._protocol.changes != self._changes
        due = self._next_report if is_news else self._reported_at + REST_INTERVAL
        plans_at = self._protocol.next_plan_at(self._reported_farm_at)
        needed = time.monotonic() + self._clock.real_until(plans_at)
        return min(due, max(needed, self._not_before))

    def _may_report_early(self, now: float) -> bool:
        """Return whether a report of a farm at rest is made now, before it is due (real)."""
        due = self._reported_at + REST_INTERVAL
        return now >= self._not_before and self._wakeups.is_time_for(due)

    def _answer(self) -> float:
        """Answer what was asked, jobs in steps; return when an image may be ready (real)."""
        asked = self._out.take_asked()[:MAX_ANSWERS]
        images = [question.reply_to for question in asked if question.about == "farm"]
        due = self._images.turn(images, len(self._scheduler.jobs), self._image, self._notices)
        others = (question for question in asked if question.about != "farm")
        if refused := [one.reply_to for one in others if not self._questions.ask(one)]:
            self._notices.reply(BUSY, *refused)
        return due

    def _waits(self, job: str) -> bool:
        state = self._scheduler.jobs.get(job)
        return state is not None and state.slot is None

    def _image(self) -> FarmImage:
        choices = self._scheduler.rules.choices
        snapshot = snapshot_of(self._scheduler, self._clock.now())
        return FarmImage(
            # sizes are the scenario's then: a what-if may change them
            snapshot=replace(snapshot, choices=replace(choices, pools={})),
            scenario=as_chosen(self._scenario, choices),
            statistics=statistics_of(self._scheduler.estimator),
            progress=self._protocol.progress(self._scheduler.jobs),
            lost=self._lost_lately(time.monotonic()),
            recent=self._arrivals.recent(snapshot.at),
        )

    def _keep_learned(self, now: float) -> None:
        """Save what was learned occasionally (at most a 20th of the time), and at the end."""
        if not self._is_unsaved or (now < self._next_saving and not self._farm.stopping):
            return
        self._is_unsaved = False
        learned = SchedulerMemory(
            statistics=statistics_of(self._scheduler.estimator),
            trees=trees_of(self._scheduler),
            calibrations={name: one.platforms for name, one in self._calibrations.items()},
            lately=self._lately.memory,
        )
        self._notices.keep_learned(learned)
        self._next_saving = now + max(SAVING_INTERVAL, SHARE * (time.monotonic() - now))

    def _report(self, now: float) -> None:
        was_news, self._is_news = self._is_news, False
        self._reported_at, self._reported_farm_at = now, self._clock.now()
        self._changes = self._protocol.changes
        pools, hosts = self.reports(self._scheduler.keeper.specs), self._protocol.host_records()
        self._notices.publish(pools, hosts, self._status(now))
        if self._long_lived and (was_news or self._is_surplus):
            self._is_surplus = self._notices.forget_ended(self._keep_ended)

    def _lost_lately(self, now: float) -> tuple[LostBuilder, ...]:
        return tuple(builder for at, builder in self._lost if at > now - LOST_TIME)

    def _status(self, now: float) -> FarmStatus:
        while self._ended_at and self._ended_at[0] < now - MINUTE:
            self._ended_at.popleft()
        status, lost = self._farm.status(), self._lost_lately(now)
        return replace(
            status,
            builders=status.builders | ({"lost": len(lost)} if lost else {}),
            written_at=self._notices.server_time(),
            ended_last_minute=len(self._ended_at),
            lost=lost,
            max_backlog=self._scenario.live.max_backlog,
        )
