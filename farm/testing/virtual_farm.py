"""A whole farm in one process and in virtual time, with its state in fakeredis.

The scheduler, the pools and their provisioners are the simulated ones; what they decide is written
by the live farm's own store, and operators reach them through the live farm's inbox. No process,
no socket, no waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import fakeredis
import msgspec

from farm.app.api import Source, load_scenario
from farm.app.jobs.job_forecast import forecast_of
from farm.app.recorded.played_again import played_again
from farm.app.runs.learning import seeded_estimator
from farm.assembly import make_scheduler
from farm.core.commands import Command, EndJob, SetAlarm
from farm.core.events import AlarmRang, Event, JobsSubmitted
from farm.core.model import Job
from farm.core.state.working_state import JobState
from farm.forecasts.dispatch.recent_errors import RecentErrors
from farm.forecasts.forecast_words import StartForecast
from farm.forecasts.runtime.interface import JobProgress
from farm.live.operating.answering import Questions
from farm.live.operating.answers import Answer, Forecasts, Refusal
from farm.live.operating.client import FarmClient
from farm.live.protocol.submissions import with_ended_needs
from farm.live.redis.keys import Keys
from farm.live.store.batch import Batch
from farm.live.store.job_reader import state_of
from farm.live.store.state_writer import StateWriter
from farm.live.store.store import Store
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import Ask, Report, limit_arrival
from farm.live.wire.pool_report import status_of
from farm.sim.simulation import Simulation
from farm.units import parse_time
from provisioner.from_scenario import algorithms_of

#: no job arrives of itself; the run would be over if none ever did
_LATER_THAN_ANYTHING = 1e15


class VirtualFarm:
    """A farm of the scenario's pools and rules; its workload is left to ``submit``.

    ``operator`` is the same as that of a live farm: what it reads lies in fakeredis (``redis``),
    ``advance`` reads what it sends at the present instant.

    >>> built = farm.testing.VirtualFarm("mm1")  # one builder
    >>> built.submit(*(farm.Job(id=name, service_time=60.0) for name in ("a", "b")))
    >>> built.advance("90s")
    >>> built.state("a"), built.state("b"), built.at
    ('succeeded', 'running', 90.0)
    """

    def __init__(self, scenario: Source, **overrides: object) -> None:
        loaded = load_scenario(scenario, **overrides)
        self.redis = fakeredis.FakeRedis(protocol=2)
        self._keys = Keys("virtual:")
        self._store = Store(self.redis, self._keys)
        self._store.open(1.0)
        self.operator = FarmClient("fakeredis", self._keys.prefix, client=self.redis)
        self._inbox = Inbox(self.redis, self._keys)
        nothing: Iterator[tuple[float, tuple[Job, ...]]] = iter([(_LATER_THAN_ANYTHING, ())])
        self._simulation = Simulation.of(
            loaded,
            scheduler=make_scheduler(
                loaded, explain_last=1000, estimator=seeded_estimator(loaded, played_again)
            ),
            algorithms=algorithms_of(loaded),
            load=nothing,
        )
        self.scheduler, self._world = self._simulation.scheduler, self._simulation.world
        self._state_writer = StateWriter(self.scheduler)
        self._batch = Batch()
        self._ended: dict[str, int] = {}
        self._submitted = 0
        #: farm time, seconds
        self.at = 0.0
        self.advance(0.0)

    # --- what a user does ---------------------------------------------------------------------

    def submit(self, *jobs: Job) -> None:
        """Submit jobs now, as an operator does."""
        self.operator.submit(jobs)
        self.advance(0.0)

    def advance(self, time: float | str) -> None:
        """Read what operators sent, and let farm time pass: seconds, or as ``"5m"``."""
        while entries := self._inbox.read(0.0):
            for entry in entries:
                for report in entry.envelope.reports:
                    self._take(report)
        until = self.at + parse_time(time)
        self._world.execute(SetAlarm(until))
        while (event := self._world.next_event()) is not None:
            self._handle(event)
            if isinstance(event, AlarmRang) and event.at >= until:
                break
        self.at = until
        self._commit()

    def advance_until_idle(self, at_most: float | str = "365d", step: float | str = "1m") -> None:
        """Let time pass until no job is left; raises AssertionError if that takes longer."""
        end = self.at + parse_time(at_most)
        while self.scheduler.jobs:
            if self.at >= end:
                raise AssertionError(f"{len(self.scheduler.jobs)} jobs are left at {self.at:g}s")
            self.advance(step)

    def state(self, job: str) -> str:
        """Return where a job stands: waiting, running, succeeded, …; unknown if it is none."""
        found = self.operator.job(job)
        return "unknown" if found is None else state_of(found)

    def explain(self, job: str) -> Answer:
        """Return what the scheduler knows of a job: why it waits, why it went where it did."""
        answers: list[Answer | Forecasts | Refusal] = []

        questions = Questions(
            self.scheduler,
            lambda: self.at,
            lambda _, answer: answers.append(answer),
            self._progress,
            by_errors=RecentErrors(lambda _: False).range_of,
        )
        questions.ask(Ask("job", job, ""))
        while questions.step():
            pass
        (answer,) = answers
        if not isinstance(answer, Answer):
            raise TypeError(f"no answer about {job}: {answer}")
        return answer

    def forecast(self, job: str) -> StartForecast | None:
        """Return when a job that has not started will start, with its range; None: it has."""
        found = self.explain(job).job
        return None if found is None or found.elapsed_time is not None else forecast_of(found)

    # --- how ----------------------------------------------------------------------------------

    def _progress(self, state: JobState) -> JobProgress | None:
        done = self._world.fraction_done(state.job.id)
        return None if done is None else JobProgress(done, self.at - (state.started_at or 0.0))

    def _take(self, report: Report) -> None:
        if not isinstance(report, Event):
            return  # provisioners and questions: no service behind the inbox answers
        event = msgspec.structs.replace(report, at=self.at)
        if isinstance(event, JobsSubmitted):
            for job in event.jobs:
                limit_arrival(job, self.at)
            self._submitted += len(event.jobs)
            ended, outcomes = self._batch.ended, self._store.outcomes
            event = with_ended_needs(event, self.scheduler.jobs, ended, outcomes)
        self._handle(event)

    def _handle(self, event: Event) -> None:
        self._state_writer.touch(event)
        commands: Sequence[Command] = self.scheduler.handle(event)
        for command in commands:
            self._state_writer.note(command, event.at, self._batch)
            if isinstance(command, EndJob):
                self._ended[command.outcome] = self._ended.get(command.outcome, 0) + 1
            self._world.execute(command)

    def _commit(self) -> None:
        batch, self._batch = self._batch, Batch()
        self._state_writer.write(batch)
        self._store.commit(batch, self._inbox.cursor, self.at)
        status = status_of(
            self.scheduler,
            self.at,
            self._state_writer.running,
            submitted=self._submitted,
            ended=dict(self._ended),
            hosts=0,
            stopping=False,
        )
        self._store.notices.publish({}, {}, status)
