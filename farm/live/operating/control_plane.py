"""The control plane of a live scheduler: reports and answers to questions.

It is an observer and is called between batches of events. It writes what provisioners and
operators read; the scheduler's state itself is written by the store.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from farm.core import events
from farm.core.commands import Command, EndJob, RequestBuilder
from farm.core.events import Event, PoolSize
from farm.core.pools.observer import PoolObserver
from farm.core.pools.spec import PoolSpec
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import count_builders, snapshot_of, trees_of
from farm.forecasts.dispatch.calibration import Calibration
from farm.forecasts.dispatch.lately import RecentErrors
from farm.forecasts.dispatch.recent_arrivals import MOST_JOBS, ArrivalMemory
from farm.forecasts.runtime.interface import Progress
from farm.live.operating.answering import Questions, Rollouts
from farm.live.operating.answers import BUSY, FarmImage, as_chosen
from farm.live.operating.images import Images
from farm.live.protocol.protocol import Protocol
from farm.live.store.saved import Learned
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


def pool_reports(
    scheduler: Scheduler, farm: LiveWorld, pools: Iterable[str]
) -> dict[str, PoolReport]:
    """Return how these pools stand now, by name."""
    joined = defaultdict[str, list[str]](list)
    for name, state in scheduler.builders.items():
        joined[state.builder.pool].append(name)
    counts = count_builders(scheduler)
    states = {name: counts.get(name, {"booting": 0}) for name in pools}
    return {n: _report(n, scheduler, farm, states[n], joined[n]) for n in states}


def _report(
    name: str, scheduler: Scheduler, farm: LiveWorld, states: dict[str, int], joined: Sequence[str]
) -> PoolReport:
    spec, protocol, clock = scheduler.keeper.specs[name], farm.protocol, farm.clock
    watch, plan = protocol.plans.watches.get(name), protocol.plans.plans.get(name)
    closely = watch is not None and watch.closely
    return PoolReport(
        snapshot=PoolObserver(scheduler, spec, closely=closely).look(clock.now()),
        watcher=watch.token if watch else "",
        heard=plan.serial if plan else 0,
        requested={n: r.at for n, r in scheduler.pool(name).requested.items()},
        joined=tuple(joined),
        elsewhere=protocol.elsewhere(name),
        states=states,
        closely=closely,
        outside=watch is not None and watch.outside,
        provisioned=spec.provisioned,
        processors=spec.processors,
        virtualized=spec.virtualized,
        boot_time=spec.boot_time,
        speed=clock.speed,
        least=spec.builders,
        most=spec.max,
        chosen=scheduler.rules.choices.pools.get(name, PoolSize()),
        unplaced=sum(play.builder.pool == name for play in protocol.builders.wanted.values()),
        desired=plan.desired if plan else (None if spec.provisioned else spec.builders),
        why=readable(plan.why) if plan else "",
    )


class ControlPlane:
    """Publishes the farm's state and answers questions. Used from the scheduler's thread.

    Args:
        scenario: what the farm was made from: published, and a part of its images.
        long_lived: operators submit jobs: an id can be used only once, and ``keep_ended`` jobs that
            have ended are kept.
        rollouts: answer when a job will start; None: the formula does.
        calibrations: of these estimates, by the source of their run times.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        pools: Sequence[PoolSpec],
        scenario: Scenario,
        *,
        long_lived: bool = False,
        keep_ended: int = 100_000,
        rollouts: Rollouts | None = None,
        calibrations: Mapping[str, Calibration] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._pools = {pool.name: pool for pool in pools}
        self._long_lived = long_lived
        self._keep_ended = keep_ended
        self._rollouts, self._calibrations = rollouts, calibrations or {}
        self._lately = RecentErrors(self._waits)
        self._arrivals = ArrivalMemory(MOST_JOBS)
        self._scenario = scenario
        self._images = Images()
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
        self._changes = self._plans = 0
        #: more ended jobs than are kept were left by the last step
        self._is_surplus = False
        self._questions: Questions | None = None
        self._ended_at: deque[float] = deque()
        #: of the builders that are present or requested
        self._pool_of: dict[str, str] = {}
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

    def go_on(self, learned: Learned) -> None:
        """Know the builders of an earlier scheduler, which has been restored, and its errors."""
        self._lately.memory = learned.lately
        for name, platforms in learned.calibrations.items():
            if name in self._calibrations:
                self._calibrations[name].load(platforms)
        self._pool_of = {name: s.builder.pool for name, s in self._scheduler.builders.items()}
        for pool in self._scheduler.pools.values():
            self._pool_of.update(dict.fromkeys(pool.requested, pool.name))

    def turn(self, farm: LiveWorld) -> float:
        """Answer and report, between batches of events; return when the next turn is due (real)."""
        now = time.monotonic()
        if self._long_lived:
            self._keep_learned(farm, now)
        if farm.protocol.plans.changes != self._plans:
            # their events have been handled: an earlier report would have a provisioner plan twice
            self._plans, self._next_report = farm.protocol.plans.changes, 0.0
        if now >= self._report_due(farm):
            began = time.thread_time()  # a machine that keeps us waiting is no cost of the report
            self._report(farm, now)
            cost = min(SHARE * (time.thread_time() - began), MAX_REPORT_INTERVAL)
            self._not_before = now + cost
            self._next_report = now + max(REPORT_INTERVAL, cost)
        return min(self._answer(farm), self._report_due(farm))

    def _report_due(self, farm: LiveWorld) -> float:
        """Return when the next report is to be made (real)."""
        is_news = self._is_news or farm.protocol.changes != self._changes
        due = self._next_report if is_news else self._reported_at + REST_INTERVAL
        plans_at = farm.protocol.plans.next_at(self._reported_farm_at)
        needed = time.monotonic() + farm.clock.real_until(plans_at)
        return min(due, max(needed, self._not_before))

    def _answer(self, farm: LiveWorld) -> float:
        """Answer what was asked, jobs in steps; return when an image may be ready (real)."""
        asked = farm.protocol.out.asked[:MAX_ANSWERS]
        farm.protocol.out.asked.clear()
        due = self._images.turn(
            [question.reply_to for question in asked if question.about == "farm"],
            len(self._scheduler.jobs),
            partial(self._image_of, farm),
            farm.notices,
        )
        refused = [
            question.reply_to
            for question in asked
            if question.about != "farm" and not self._ask(question, farm)
        ]
        if refused:
            farm.notices.reply(BUSY, *refused)
        return due

    def _ask(self, question: wire.Ask, farm: LiveWorld) -> bool:
        if self._questions is None:
            self._questions = Questions(
                self._scheduler,
                self._pools,
                farm.clock.now,
                lambda asked, found: farm.notices.reply(found, asked.reply_to),
                farm.protocol.progress_of,
                self._rollouts,
                self._lately.of,
            )
            farm.background.add(self._questions.step)
        return self._questions.ask(question)

    def _waits(self, job: str) -> bool:
        state = self._scheduler.jobs.get(job)
        return state is not None and state.slot is None

    def _image_of(self, farm: LiveWorld) -> FarmImage:
        choices = self._scheduler.rules.choices
        snapshot = snapshot_of(self._scheduler, farm.clock.now())
        return FarmImage(
            # sizes are the scenario's then: a what-if may change them
            snapshot=replace(snapshot, choices=replace(choices, pools={})),
            scenario=as_chosen(self._scenario, choices),
            statistics=self._statistics(),
            progress=self._progress(farm.protocol),
            lost=self._lost_lately(time.monotonic()),
            recent=self._arrivals.recent(snapshot.at),
        )

    def _progress(self, protocol: Protocol) -> dict[str, Progress]:
        """Return what running attempts reported last, by job."""
        states = map(self._scheduler.jobs.get, protocol.roster.jobs())
        found = ((state.job.id, protocol.progress_of(state)) for state in states if state)
        return {job: progress for job, progress in found if progress is not None}

    def _statistics(self) -> dict[str, object] | None:
        estimator: object = self._scheduler.estimator
        return estimator.dump() if hasattr(estimator, "dump") else None

    def _keep_learned(self, farm: LiveWorld, now: float) -> None:
        """Save what was learned occasionally (at most a 20th of the time), and at the end."""
        if not self._is_unsaved or (now < self._next_saving and not farm.stopping):
            return
        self._is_unsaved = False
        learned = Learned(
            statistics=self._statistics(),
            trees=trees_of(self._scheduler),
            calibrations={name: one.platforms for name, one in self._calibrations.items()},
            lately=self._lately.memory,
        )
        farm.notices.keep_learned(learned)
        self._next_saving = now + max(SAVING_INTERVAL, SHARE * (time.monotonic() - now))

    def report(self, pool: str, farm: LiveWorld) -> PoolReport:
        """Return the report on a pool for the embedded provisioner."""
        return pool_reports(self._scheduler, farm, [pool])[pool]

    # --- reports ----------------------------------------------------------------------------

    def _report(self, farm: LiveWorld, now: float) -> None:
        was_news, self._is_news = self._is_news, False
        self._reported_at, self._reported_farm_at = now, farm.clock.now()
        self._changes = farm.protocol.changes
        pools = pool_reports(self._scheduler, farm, self._pools)
        hosts = farm.protocol.host_records()
        farm.notices.publish(pools, hosts, self._status(farm, now))
        if self._long_lived and (was_news or self._is_surplus):
            self._is_surplus = farm.notices.forget_ended(self._keep_ended)

    def _lost_lately(self, now: float) -> tuple[LostBuilder, ...]:
        return tuple(builder for at, builder in self._lost if at > now - LOST_TIME)

    def _status(self, farm: LiveWorld, now: float) -> FarmStatus:
        while self._ended_at and self._ended_at[0] < now - MINUTE:
            self._ended_at.popleft()
        status, lost = farm.status(), self._lost_lately(now)
        return replace(
            status,
            builders=status.builders | ({"lost": len(lost)} if lost else {}),
            written_at=farm.server_time(),
            ended_last_minute=len(self._ended_at),
            lost=lost,
            max_backlog=self._scenario.live.max_backlog,
        )
