"""Training an estimator on a finished run, from its events in order."""

from __future__ import annotations

from collections.abc import Iterable

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
from farm.forecasts.runtime.interface import RuntimeEstimator


class Learner:
    """Trains an estimator on events as they happen, like the scheduler's own.

    A late report of a void attempt is ignored.
    """

    def __init__(self, estimator: RuntimeEstimator) -> None:
        self.estimator = estimator
        self.count = 0
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
                self._running.setdefault((event.job, event.attempt), (event.at, event.builder))
            case JobFinished():
                self._ended(event)
            case AttemptLost():
                self._running.pop((event.job, event.attempt), None)
            case BuilderLost() | BuilderRetired():
                gone = [key for key, (_, on) in self._running.items() if on == event.builder]
                for key in gone:
                    del self._running[key]

    def _ended(self, event: JobFinished) -> None:
        since = self._running.pop((event.job, event.attempt), None)
        job, builder = self._jobs.get(event.job), self._builders.get(event.builder)
        if since is None or job is None or builder is None or event.outcome == "cancelled":
            return
        self.estimator.learn(job, builder, event.at - since[0], event.outcome)
        self.count += 1


def learn_from(estimator: RuntimeEstimator, events: Iterable[Event]) -> int:
    """Train the estimator on a run's events as the scheduler did; return the number of attempts.

    Cancelled attempts, and those whose start, job or builder is not among the events, are left out.
    """
    learner = Learner(estimator)
    for event in events:
        learner.take(event)
    return learner.count
