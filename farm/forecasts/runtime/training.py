"""Training an estimator on a finished run, from its events in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farm.core.contention.laws import ContentionLaw
from farm.core.contention.work_meter import WorkMeter
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Job
from farm.core.rules import EndedAttempt, teach
from farm.forecasts.runtime.interface import RuntimeEstimator


class Learner:
    """Trains an estimator on events as they happen, like the scheduler's own.

    A late report of a void attempt is ignored. ``laws``: by pool, how jobs slow each other down.
    """

    def __init__(
        self, estimator: RuntimeEstimator, laws: Mapping[str, ContentionLaw] | None = None
    ) -> None:
        self.estimator = estimator
        self.count = 0
        self._meter = WorkMeter(laws or {})
        self._jobs: dict[str, Job] = {}
        self._builders: dict[str, Builder] = {}
        self._running: dict[tuple[str, int], tuple[float, str]] = {}  # -> since, on

    def take(self, event: Event) -> None:
        """Learn from the next event."""
        match event:
            case JobsSubmitted():
                self._jobs.update((job.id, job) for job in event.jobs)
            case BuilderJoined():
                self._builders[event.builder.id] = event.builder
            case JobStarted():
                self._started(event)
            case JobFinished():
                self._ended(event)
            case AttemptLost():
                self._running.pop((event.job, event.attempt), None)
                self._meter.ended(event.builder, event.job, event.at)
            case BuilderLost() | BuilderRetired():
                gone = [key for key, (_, on) in self._running.items() if on == event.builder]
                for key in gone:
                    del self._running[key]
                self._meter.gone(event.builder)

    def _started(self, event: JobStarted) -> None:
        key = event.job, event.attempt
        job, builder = self._jobs.get(event.job), self._builders.get(event.builder)
        if key not in self._running:
            self._running[key] = event.at, event.builder
            if job is not None and builder is not None:
                self._meter.started(builder, job, event.at)

    def _ended(self, event: JobFinished) -> None:
        since = self._running.pop((event.job, event.attempt), None)
        job, builder = self._jobs.get(event.job), self._builders.get(event.builder)
        if since is None or job is None or builder is None:
            return
        work = self._meter.ended(event.builder, event.job, event.at)
        if event.outcome == "cancelled":
            return
        ended = EndedAttempt(job, builder, since[0], event.at, event.outcome, work)
        teach(self.estimator, ended)
        self.count += 1


def learn_from(
    estimator: RuntimeEstimator,
    events: Iterable[Event],
    laws: Mapping[str, ContentionLaw] | None = None,
) -> int:
    """Train the estimator on a run's events as the scheduler did; return the number of attempts.

    Cancelled attempts, and those whose start, job or builder is not among the events, are left out.
    """
    learner = Learner(estimator, laws)
    for event in events:
        learner.take(event)
    return learner.count
