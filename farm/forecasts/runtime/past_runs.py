"""Seeding an estimator from a run that is over: its facts are learned again, in their order."""

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
    """Lets an estimator learn from facts as they come, as the scheduler's own one does.

    A late report of a void attempt teaches nothing.
    """

    def __init__(self, estimator: RuntimeEstimator) -> None:
        self.estimator = estimator
        self.count = 0
        self._jobs: dict[str, Job] = {}
        self._builders: dict[str, Builder] = {}
        self._running: dict[tuple[str, int], tuple[float, str]] = {}  # -> since, on

    def take(self, fact: Event) -> None:
        """Take the next fact in."""
        match fact:
            case JobsSubmitted():
                self._jobs.update((job.id, job) for job in fact.jobs)
            case BuilderJoined():
                self._builders[fact.builder.id] = fact.builder
            case JobStarted():
                self._running.setdefault((fact.job, fact.attempt), (fact.at, fact.builder))
            case JobFinished():
                self._ended(fact)
            case AttemptLost():
                self._running.pop((fact.job, fact.attempt), None)
            case BuilderLost() | BuilderRetired():
                gone = [key for key, (_, on) in self._running.items() if on == fact.builder]
                for key in gone:
                    del self._running[key]

    def _ended(self, fact: JobFinished) -> None:
        since = self._running.pop((fact.job, fact.attempt), None)
        job, builder = self._jobs.get(fact.job), self._builders.get(fact.builder)
        if since is None or job is None or builder is None or fact.outcome == "cancelled":
            return
        self.estimator.learn(job, builder, fact.at - since[0], fact.outcome)
        self.count += 1


def learn_from(estimator: RuntimeEstimator, facts: Iterable[Event]) -> int:
    """Let the estimator learn from a run's facts as the scheduler did; return how many attempts.

    Attempts whose beginning, job or builder is not among the facts, and cancelled ones, are left
    out.
    """
    learner = Learner(estimator)
    for fact in facts:
        learner.take(fact)
    return learner.count
