"""The control plane of a live scheduler: reports and answers to questions.

It is an observer and is called between batches of events. It writes what provisioners and
operators read; the scheduler's state itself is written by the store.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from farm.core import events
from farm.core.commands import Command, EndJob
from farm.core.events import Event
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.dispatch.forecast_intervals import ForecastCalibration
from farm.forecasts.dispatch.recent_arrivals import MOST_JOBS, ArrivalMemory
from farm.live.operating.answering import Questions, RolloutAnswers
from farm.live.operating.answers import BUSY, FarmImage, as_chosen
from farm.live.operating.images import Images
from farm.live.operating.learned_saver import LearnedSaver
from farm.live.operating.lost_builders import LostBuilders
from farm.live.operating.reporting import PoolReporter, ReportSchedule
from farm.live.store.saved import SchedulerMemory, statistics_of
from farm.live.wire import messages as wire
from farm.live.wire.pool_report import FarmStatus, PoolReport
from farm.live.world import LiveWorld
from farm.scenario import Scenario

MINUTE = 60.0
#: answers per turn, refusals among them; who asks beyond that gets none
MAX_ANSWERS = 300
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
        rollouts: RolloutAnswers | None = None,
        calibrations: Mapping[str, ForecastCalibration] | None = None,
        learned: SchedulerMemory | None = None,
    ) -> None:
        self._farm = farm
        self._scheduler = scheduler
        self._scenario = scenario
        self._protocol = farm.protocol
        self._notices = farm.notices
        self._long_lived = long_lived
        self._keep_ended = keep_ended
        self._pools = PoolReporter(scheduler, farm.protocol, farm.clock)
        self._lost = LostBuilders(scheduler)
        calibrations = calibrations or {}
        self._learned = LearnedSaver(scheduler, calibrations, learned)
        self._arrivals = ArrivalMemory(MOST_JOBS)
        self._images = Images()
        self._questions = Questions(
            scheduler,
            farm.clock.now,
            lambda asked, found: self._notices.reply(found, asked.reply_to),
            farm.protocol.progress_of,
            rollouts,
            self._learned.errors.of,
            None if rollouts is None else calibrations.get(rollouts.run_times),
            self._learned.errors.range_of,
            self._arrivals.recent,
        )
        farm.add_step(self._questions.step)
        self._schedule = ReportSchedule(farm.protocol, farm.clock)
        #: more ended jobs than are kept were left by the last report
        self._is_surplus = False
        #: when jobs ended in the last minute (real)
        self._ended_at: deque[float] = deque()

    def observe(self, event: Event, commands: Sequence[Command]) -> None:
        """Count ended jobs and remember lost builders (as an observer of the run)."""
        self._schedule.is_news = True
        self._learned.observe(event, commands)
        self._arrivals.observe(event)
        self._lost.observe(event, commands)
        if isinstance(event, CHANGES):
            self._images.outdate()
        for command in commands:
            if isinstance(command, EndJob) and command.outcome != "cancelled":
                self._ended_at.append(time.monotonic())

    # --- for a provisioner ------------------------------------------------------------------

    def add(self, message: wire.PlannerReport | wire.Ask) -> None:
        """Take a plan, or a question, as if it had come over the wire."""
        self._protocol.take(message, self._farm.clock.now())

    @property
    def builders_to_host(self) -> int:
        """How many builders hosts play, or are to play."""
        return self._protocol.builders_to_host

    def reports(self, pools: Iterable[str]) -> dict[str, PoolReport]:
        """Return how these pools stand now, by name."""
        return self._pools.reports(pools)

    # --- turns ------------------------------------------------------------------------------

    def turn(self) -> float:
        """Answer and report, between batches of events; return when the next turn is due (real)."""
        now = time.monotonic()
        if self._long_lived:
            self._learned.save(self._notices.keep_learned, now, is_last=self._farm.stopping)
        if self._schedule.is_time(now):
            began = time.thread_time()  # a machine that keeps us waiting is no cost of the report
            self._report(now)
            self._schedule.reported(now, time.thread_time() - began)
        return min(self._answer(), self._schedule.due(time.monotonic()))

    def _answer(self) -> float:
        """Answer what was asked, jobs in steps; return when an image may be ready (real)."""
        asked = self._farm.out.take_asked()[:MAX_ANSWERS]
        images = [question.reply_to for question in asked if question.about == "farm"]
        due = self._images.turn(images, len(self._scheduler.jobs), self._image, self._notices)
        others = (question for question in asked if question.about != "farm")
        if refused := [one.reply_to for one in others if not self._questions.ask(one)]:
            self._notices.reply(BUSY, *refused)
        return due

    def _image(self) -> FarmImage:
        choices = self._scheduler.rules.choices
        snapshot = snapshot_of(self._scheduler, self._farm.clock.now())
        return FarmImage(
            # sizes are the scenario's then: a what-if may change them
            snapshot=replace(snapshot, choices=replace(choices, pools={})),
            scenario=as_chosen(self._scenario, choices),
            statistics=statistics_of(self._scheduler.estimator),
            progress=self._protocol.progress(self._scheduler.jobs),
            lost=self._lost.lately(time.monotonic()),
            recent=self._arrivals.recent(snapshot.at),
        )

    def _report(self, now: float) -> None:
        was_news = self._schedule.begin(now)
        pools = self.reports(self._scheduler.keeper.specs)
        self._notices.publish(pools, self._protocol.host_records(), self._status(now))
        if self._long_lived and (was_news or self._is_surplus):
            self._is_surplus = self._notices.forget_ended(self._keep_ended)

    def _status(self, now: float) -> FarmStatus:
        while self._ended_at and self._ended_at[0] < now - MINUTE:
            self._ended_at.popleft()
        status = self._farm.status()
        in_time = self._learned.errors.in_time()
        lost = self._lost.lately(now)
        return replace(
            status,
            builders=status.builders | ({"lost": len(lost)} if lost else {}),
            written_at=self._notices.server_time(),
            ended_last_minute=len(self._ended_at),
            forecasts_checked=len(in_time),
            forecasts_in_time=sum(in_time),
            lost=lost,
            max_backlog=self._scenario.live.max_backlog,
        )
