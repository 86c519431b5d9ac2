"""Estimated run times of a job, for a live farm, a snapshot or a finished run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from farm.app.long_running.snapshots import image_from
from farm.app.runs.estimates import seed_estimator
from farm.assembly import estimator_named
from farm.core.errors import InputError, StateError
from farm.core.events import BuilderJoined, JobsSubmitted
from farm.core.model import Builder, Job
from farm.core.state.snapshot import JobRecord
from farm.forecasts.runtime.boinc import Boinc, available, is_anonymous
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.live.operating.farm_image import FarmImage
from farm.results.estimate_scores import RungScore, score_rungs
from farm.results.run_directory import load_run
from farm.scenario import load_scenario
from farm.upstream.boinc.deadlines import check_deadline
from farm.upstream.boinc.durations import time_limit


class RunTime(msgspec.Struct, frozen=True):
    """How long a job will run on one builder, or (``builder`` None) while it waits for any."""

    estimate_s: float
    #: the rung of the estimator's ladder, and how many samples it has
    rung: str
    samples: int = 0
    builder: str | None = None
    pool: str | None = None
    speed: float = 1.0
    #: of a job that runs there: how long it has run, and its rest
    elapsed_s: float | None = None
    remaining_s: float | None = None
    #: anonymous builders receive sizes times this, so that they estimate the same time
    size_scale: float | None = None
    #: the builder's client ends the job after this time, by the bound on its size
    limit_s: float | None = None
    #: until the builder has it done, behind what it runs already
    back_in_s: float | None = None
    #: by how much that is later than the deadline, and whether BOINC would send the job there: an
    #: idle host gets one however slow it is
    late_s: float | None = None
    sent: bool | None = None


class ClientSide(msgspec.Struct, frozen=True, kw_only=True):
    """What a job of BOINC's says beside its size."""

    size_bound: float | None = None
    #: seconds from now
    deadline: float | None = None


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """An estimator with what it has learned, and the farm that it may be asked about."""

    estimator: RuntimeEstimator
    builders: dict[str, Builder]
    jobs: dict[str, Job]
    #: of jobs that run: builder and seconds since the start
    running: dict[str, tuple[str, float]] = {}
    client: ClientSide = ClientSide()

    def job(self, job_id: str) -> Job:
        """Return a job of the farm; raises InputError if it is not known."""
        if job_id not in self.jobs:
            raise InputError(f"--job: job {job_id!r:.300} is not known there")
        return self.jobs[job_id]

    def run_times(self, job: Job, builder: str | None = None) -> list[RunTime]:
        """Return the job's estimate while it waits, and on each builder that may run it.

        ``builder``: only on this one. A job that runs is asked about where it runs. Raises
        InputError for a builder that is unknown or cannot run it.
        """
        place = self.running.get(job.id)
        if builder is None and place is not None:
            return [self._on(job, self.builders[place[0]], place[1])]
        if builder is not None:
            return [self._on(job, self._named(job, builder))]
        able = [one for one in self.builders.values() if one.can_run(job.platform)]
        return [self._on(job, None), *(self._on(job, one) for one in able)]

    def _named(self, job: Job, name: str) -> Builder:
        found = self.builders.get(name)
        if found is None or not found.can_run(job.platform):
            able = [n for n, one in self.builders.items() if one.can_run(job.platform)]
            raise InputError(
                f"--builder: found {name!r:.100}; allowed: one that runs {job.platform} "
                f"({', '.join(able[:10]) or 'there is none'})"
            )
        return found

    def _on(self, job: Job, builder: Builder | None, elapsed: float | None = None) -> RunTime:
        estimator = self.estimator
        basis = estimator.basis(job, builder)
        scale = None
        if isinstance(estimator, Boinc) and builder is not None and is_anonymous(builder):
            scale = estimator.anonymous(job, builder).size_scale
        rest = None
        if builder is not None and elapsed is not None:
            rest = estimator.remaining(job, builder, elapsed)
        return RunTime(
            estimate_s=estimator.estimate(job, builder),
            rung=basis.rung,
            samples=basis.samples,
            builder=None if builder is None else builder.id,
            pool=None if builder is None else builder.pool,
            speed=1.0 if builder is None else builder.speed,
            elapsed_s=elapsed,
            remaining_s=rest,
            size_scale=scale,
            **self._client_side(job, builder),
        )

    def _client_side(self, job: Job, builder: Builder | None) -> dict[str, Any]:
        """Return when the builder would be done with a job sent to it now, and end it."""
        told = self.client
        if builder is None:
            return {}
        time = self.estimator.estimate(job, builder)
        queued = self._queue_delay(builder)
        found: dict[str, Any] = {"back_in_s": queued + time}
        if told.size_bound is not None and job.size and time > 0:
            share = available(builder) if isinstance(self.estimator, Boinc) else 1.0
            found["limit_s"] = time_limit(told.size_bound, job.size / (time * share))
        if told.deadline is not None:
            found["late_s"] = max(0.0, queued + time - told.deadline)
            found["sent"] = check_deadline(queued, time, told.deadline).ok
        return found

    def _queue_delay(self, builder: Builder) -> float:
        """Return the time until a slot of the builder is free."""
        rests = [
            self.estimator.remaining(self.jobs[name], builder, elapsed)
            for name, (where, elapsed) in self.running.items()
            if where == builder.id
        ]
        return min(rests) if len(rests) >= builder.slots else 0.0


def quorum(rows: Iterable[RunTime], replicas: int) -> tuple[float, list[str]]:
    """Return when the last of the replicas is back, and which builders have them: the soonest.

    Raises InputError for more replicas than builders.
    """
    able = [
        (row.back_in_s, row.builder) for row in rows if row.builder and row.back_in_s is not None
    ]
    if replicas > len(able):
        raise InputError(f"--replicas: found {replicas}; allowed: up to {len(able)} builders here")
    chosen = sorted(able)[:replicas]
    return chosen[-1][0], [builder for _, builder in chosen]


def learned_from(
    source: Path | None, redis: str | None, folder: Path, name: str | None = None
) -> Learned:
    """Return the estimator of a run directory, a snapshot or state file, or a live farm (None).

    ``name``: another estimator than the farm's own, which learns from a run directory.
    """
    if source is not None and source.is_dir():
        return _of_run(source, name)
    return _of_image(image_from(source, redis, folder), name)


def _of_run(path: Path, name: str | None) -> Learned:
    run = load_run(path, unfinished=True)
    estimator = estimator_named(name or run.scenario.scheduling.runtime_estimates, run.scenario)
    seed_estimator(estimator, path)
    builders: dict[str, Builder] = {}
    jobs: dict[str, Job] = {}
    for entry in run.entries():
        if isinstance(entry.event, BuilderJoined):
            builders[entry.event.builder.id] = entry.event.builder
        elif isinstance(entry.event, JobsSubmitted):
            jobs.update((job.id, job) for job in entry.event.jobs)
    return Learned(estimator=estimator, builders=builders, jobs=jobs)


def _of_image(image: FarmImage, name: str | None) -> Learned:
    scenario, snapshot = load_scenario(image.scenario), image.snapshot
    own = scenario.scheduling.runtime_estimates
    if name is not None and name != own:
        raise InputError(
            f"--estimator: found {name!r}; this farm has learned for {own} alone: another one "
            "learns from a run directory"
        )
    estimator = estimator_named(own, scenario)
    statistics = image.statistics or {}
    try:
        if statistics.get("estimator") == own:
            estimator.load(statistics.get("statistics", statistics))
    except StateError as error:
        raise StateError(f"snapshot: statistics: {error}") from None
    records = [*snapshot.running, *snapshot.waiting]
    return Learned(
        estimator=estimator,
        builders={one.builder.id: one.builder for one in snapshot.builders},
        jobs={record.job.id: record.job for record in records},
        running={
            record.job.id: (record.builder, _elapsed(record, snapshot.at))
            for record in snapshot.running
            if record.builder is not None
        },
    )


def _elapsed(record: JobRecord, at: float) -> float:
    return 0.0 if record.started_at is None else at - record.started_at


def rungs_of(path: Path, names: Iterable[str]) -> list[RungScore]:
    """Return how right these estimators would have been on a finished run, rung by rung."""
    run = load_run(path, unfinished=True)
    found = [score_rungs(run.entries(), estimator_named(name, run.scenario)) for name in names]
    return [score for scores in found for score in scores]


def alike(rows: Iterable[RunTime]) -> list[tuple[RunTime, int]]:
    """Put builders of one pool with one answer together; return one of each with their number."""
    found: dict[tuple[object, ...], tuple[RunTime, int]] = {}
    for row in rows:
        key = (
            row.pool,
            row.estimate_s,
            row.rung,
            row.samples,
            row.speed,
            row.size_scale,
            row.late_s,
        )
        first, count = found.get(key, (row, 0))
        found[key] = (first, count + 1)
    return list(found.values())
