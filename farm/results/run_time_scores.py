"""The accuracy of run-time estimates for a run's jobs, by the rung of the estimator's ladder.

The run is replayed for an estimator without history: it estimates at each dispatch, for that
builder, and learns from each end, as on the farm. Errors are estimate - truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
import numpy as np

from farm.core.commands import StartJob
from farm.core.events import BuilderJoined, JobFinished, JobStarted
from farm.core.model import Builder, Job
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.results.json_names import json_name
from farm.results.log.reader import Entry


class RungScore(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """The accuracy of one rung of an estimator, over the jobs for which it gave the estimate."""

    estimator: str
    rung: str
    jobs: int
    bias_time: float
    mean_absolute_error_time: float
    median_absolute_error_time: float
    #: sum of absolute errors ÷ sum of run times; None if all took no time
    relative_error: float | None


class _Attempt(msgspec.Struct):
    job: Job
    builder: Builder
    rung: str
    estimate: float
    started_at: float | None = None


def score_rungs(entries: Iterable[Entry], estimator: RuntimeEstimator) -> list[RungScore]:
    """Return a score for each rung, most jobs first; only successful jobs count."""
    builders: dict[str, Builder] = {}
    attempts: dict[tuple[str, int], _Attempt] = {}
    errors: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for entry in entries:
        event = entry.event
        if isinstance(event, BuilderJoined):
            builders[event.builder.id] = event.builder
        elif isinstance(event, JobStarted) and (found := attempts.get(_of(event))) is not None:
            found.started_at = event.at
        elif isinstance(event, JobFinished) and (found := attempts.pop(_of(event), None)):
            took = event.at - (event.at if found.started_at is None else found.started_at)
            if event.outcome == "succeeded":
                errors[found.rung].append((found.estimate - took, took))
            if event.outcome != "cancelled":
                estimator.learn(found.job, found.builder, took, event.outcome)
        for command in entry.commands:
            if isinstance(command, StartJob):
                job, builder = command.job, builders[command.builder]
                rung, estimate = (
                    estimator.basis(job, builder).rung,
                    estimator.estimate(job, builder),
                )
                attempts[job.id, command.attempt] = _Attempt(job, builder, rung, estimate)
    scores = [_score(estimator.name, rung, found) for rung, found in errors.items()]
    return sorted(scores, key=lambda one: -one.jobs)


def _of(event: JobStarted | JobFinished) -> tuple[str, int]:
    return event.job, event.attempt


def _score(estimator: str, rung: str, found: list[tuple[float, float]]) -> RungScore:
    errors, took = np.array(found).T
    total = float(took.sum())
    return RungScore(
        estimator=estimator,
        rung=rung,
        jobs=len(found),
        bias_time=float(errors.mean()),
        mean_absolute_error_time=float(np.abs(errors).mean()),
        median_absolute_error_time=float(np.median(np.abs(errors))),
        relative_error=float(np.abs(errors).sum()) / total if total else None,
    )
