"""Estimated run times of a job, for a live farm, a snapshot, a finished run or a bundle of records.

A run's log has no progress: it changes no decision, and would be most of the log. Whatever the
log says of starts and ends is played on emulated builders, of which progress can be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from pathlib import Path

import msgspec

from farm.app.long_running.snapshots import farm_of, image_from
from farm.app.recorded.bundle_history import history_of
from farm.app.recorded.played_again import load_run, played_again
from farm.app.runs.learning import seeded_estimator
from farm.assembly import estimator_named, pool_specs
from farm.core.commands import CancelJob, StartJob
from farm.core.errors import InputError, StateError
from farm.core.events import (
    AttemptLost,
    BuilderJoined,
    BuilderLost,
    BuilderRetired,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.emulation.agenda import Action, Due
from farm.emulation.behaviour import spec_of
from farm.emulation.builder import EmulatedBuilder
from farm.emulation.client_estimate import available, is_anonymous, own_estimate
from farm.forecasts.runtime.boinc import Boinc, previous_version
from farm.forecasts.runtime.interface import JobProgress, RuntimeEstimator, RunTimeRange
from farm.forecasts.runtime.launchpad import Launchpad
from farm.forecasts.runtime.oracle import Oracle
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.run_time_range import MAX_RUNNING, range_of
from farm.forecasts.runtime.run_time_range import RunningAttempt as RunningNow
from farm.forecasts.runtime.training import Learner
from farm.live.operating.answers import FarmImage
from farm.records.bundle import is_bundle
from farm.results.estimate_scores import RungScore, score_rungs
from farm.results.log.reader import Entry
from farm.scenario import Scenario
from farm.units import format_roughly
from farm.upstream.boinc.durations import check_deadline, time_limit


class _EmptyAgenda:
    """An agenda on which nothing becomes due: the log says when it happened."""

    now = 0.0

    def put(self, at: float, rank: int, place: int, action: Action) -> Due:  # noqa: ARG002
        return Due(action)


class RecordedFarm:
    """Builders, jobs and running attempts, after the entries of a log that were taken so far.

    ``live``: a burning job's progress was up to its machine, and is not known.
    """

    def __init__(self, scenario: Scenario, *, live: bool) -> None:
        self._pools = {pool.name: pool for pool in pool_specs(scenario)}
        self._live = live
        self._instant = _EmptyAgenda()
        self._played: dict[str, EmulatedBuilder] = {}
        self._sent: dict[tuple[str, int], StartJob] = {}
        self.jobs: dict[str, Job] = {}
        #: by job: its attempt, and when that started
        self.running: dict[str, tuple[StartJob, float]] = {}

    @property
    def builders(self) -> dict[str, Builder]:
        """Those that are there."""
        return {name: played.builder for name, played in self._played.items()}

    def take(self, entry: Entry) -> None:
        """Let happen what one event and its commands say."""
        for command in entry.commands:
            if isinstance(command, StartJob):
                self._sent[command.job.id, command.attempt] = command
        event = entry.event
        self._instant.now = max(event.at, self._instant.now)
        if entry.ignored:
            return
        match event:
            case JobsSubmitted():
                self.jobs.update((job.id, job) for job in event.jobs)
            case BuilderJoined():
                pool = self._pools.get(event.builder.pool) or PoolSpec(name=event.builder.pool)
                spec = spec_of(pool, event.builder)
                self._played[event.builder.id] = EmulatedBuilder(
                    spec, self._instant, lambda _: None
                )
            case JobStarted():
                self._started(event)
            case JobFinished() | AttemptLost():
                self._over(event.job, event.attempt)
            case BuilderLost() | BuilderRetired():
                self._played.pop(event.builder, None)
                for start, _ in list(self.running.values()):
                    if start.builder == event.builder:
                        self._over(start.job.id, start.attempt)

    def _started(self, event: JobStarted) -> None:
        start, played = self._sent.get((event.job, event.attempt)), self._played.get(event.builder)
        if start is not None and played is not None:
            self.running[event.job] = start, event.at
            played.start(start)

    def _over(self, job: str, attempt: int) -> None:
        start = self._sent.pop((job, attempt), None)
        self.running.pop(job, None)
        if start is not None and (played := self._played.get(start.builder)) is not None:
            played.cancel(CancelJob(job, attempt, start.builder))

    def progress(self, job: str, at: float) -> JobProgress | None:
        """Return the progress of a running job at an instant after the last entry's."""
        start, since = self.running[job]
        played = self._played[start.builder]
        own = self._pools.get(played.builder.pool)
        if (own is not None and own.behaviour) or (self._live and start.job.mode != "timed"):
            return None
        self._instant.now = max(at, self._instant.now)
        done = played.fraction_done(job)
        return None if done is None else JobProgress(done, self._instant.now - since)


class RunTime(msgspec.Struct, frozen=True):
    """How long a job will run on one builder, or (``builder`` None) while it waits for any."""

    estimate_s: float
    #: eight jobs of ten run between these; of a job that runs there, from its start on. None: too
    #: few runs are known
    p10_s: float | None = None
    p90_s: float | None = None
    #: the rung of the estimator's ladder, and how many samples it has
    rung: str = ""
    samples: int = 0
    builder: str | None = None
    pool: str | None = None
    speed: float = 1.0
    #: what the estimate is of, as far as the job or its kind says
    size: float | None = None
    declared_s: float | None = None
    #: of a job that runs there: how long it has run, which part it reports as done, and its rest
    elapsed_s: float | None = None
    done: float | None = None
    remaining_s: float | None = None
    #: anonymous builders receive sizes times this, so that they estimate the same time: theirs
    size_scale: float | None = None
    own_estimate_s: float | None = None
    #: the builder's client ends the job after this time, by the bound on its size
    limit_s: float | None = None
    #: until the builder has it done, behind what it runs already
    back_in_s: float | None = None
    #: by how much that is later than the deadline, and whether BOINC would send the job there: an
    #: idle host gets one however slow it is
    late_s: float | None = None
    sent: bool | None = None


class RunningAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A running attempt: where, for how many seconds, what was reported of it, what size sent."""

    builder: str
    elapsed: float
    progress: JobProgress | None = None
    sent_size: float | None = None


class LearnedFarm(msgspec.Struct, frozen=True, kw_only=True):
    """An estimator with what it has learned, and the farm that it may be asked about."""

    #: the estimator, and how long jobs with such estimates really ran
    learned: RuntimeDistribution
    #: farm time at which it may be asked
    at: float
    builders: dict[str, Builder]
    jobs: dict[str, Job]
    #: by job
    running: dict[str, RunningAttempt] = {}
    #: what a job of BOINC's says beside its size: its bound, and when it is due, seconds from now
    size_bound: float | None = None
    deadline: float | None = None

    @property
    def estimator(self) -> RuntimeEstimator:
        """The estimator without the distribution."""
        return self.learned.estimator

    def job(self, job_id: str) -> Job:
        """Return a job of the farm; raises InputError if it is not known."""
        if job_id not in self.jobs:
            raise InputError(f"--job: job {job_id!r:.300} is not known there")
        return self.jobs[job_id]

    def hypothetical(
        self, kind: str, platform: Platform, size: float | None, declared: float | None
    ) -> tuple[Job, str]:
        """Return a job of a kind, and what of it is assumed.

        Where neither its size nor its declared time is given, both are the means of the kind's jobs
        that are known. Raises InputError for a size where no job has any, and for a kind without
        jobs where true times alone are known.
        """
        if size is not None:
            self._check_size(size)
        known = sorted({job.kind for job in self.jobs.values()})
        like, kinds = kind, ", ".join(known[:10])
        if kind not in known:
            like = previous_version(known, kind) or kind
        alike = [job for job in self.jobs.values() if job.kind == like]
        whose = f"its {len(alike):,} jobs" if like == kind else f"{len(alike):,} jobs of {like}"
        if not alike and isinstance(self.estimator, Oracle):
            raise InputError(
                f"--kind: found {kind!r:.100}; the estimator oracle knows true times alone; "
                f"allowed: {kinds or 'none, there are no jobs'}"
            )
        assumed = ""
        if isinstance(self.estimator, Oracle):
            assumed = f"true time: the mean of {whose} there"
        elif size is None and declared is None:
            declared = _mean(job.declared_time for job in alike)
            size = _mean(job.size for job in alike)
            means = {"declared": None if declared is None else format_roughly(declared)}
            means["size"] = None if size is None else f"{size:.4g}"
            parts = ", ".join(f"{name} {text}" for name, text in means.items() if text is not None)
            assumed = f"{parts}: the mean of {whose} there"
            if not parts:
                default = format_roughly(self.estimator.options.default_time)
                none = "" if alike or not kinds else f"; kinds there: {kinds}"
                assumed = f"no size or declared time: {default} is assumed{none}"
        time = _mean(job.service_time for job in alike)
        made = Job(
            id="",
            service_time=time or 0.0,
            kind=kind,
            size=size,
            declared_time=declared,
            platform=platform,
        )
        if size is None and declared is None and self.estimator.basis(made).samples:
            assumed = ""  # its kind's past runs are enough
        return made, assumed

    def _check_size(self, size: float) -> None:
        if not 0 < size < math.inf:
            raise InputError(f"--size: found {size:g}; allowed: a finite number above 0")
        estimator = self.estimator
        rated = isinstance(estimator, Boinc) and estimator.known_size_rate is not None
        if rated or isinstance(estimator, Launchpad) or any(j.size for j in self.jobs.values()):
            return
        raise InputError(
            f"--size: found {size:g}; no job there has a size, so what a unit of it takes is not "
            "known; allowed: --declared (or a farm with scheduling.runtime_options.size_rate)"
        )

    def run_times(self, job: Job, builder: str | None = None) -> list[RunTime]:
        """Return the job's estimate while it waits, and on each builder that may run it.

        ``builder``: only on this one. A job that runs is asked about where it runs. Raises
        InputError for a builder that is unknown or cannot run it.
        """
        place = self.running.get(job.id)
        if builder is None and place is not None:
            return [self._on(job, self.builders[place.builder], place)]
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

    def _on(
        self, job: Job, builder: Builder | None, attempt: RunningAttempt | None = None
    ) -> RunTime:
        estimator = self.estimator
        basis = estimator.basis(job, builder)
        more: dict[str, object] = {}
        sent = rest = None
        if isinstance(estimator, Boinc) and builder is not None and is_anonymous(builder):
            more["size_scale"] = estimator.anonymous(job, builder).size_scale
            sent = estimator.size_sent(job, builder)
        if builder is not None and attempt is not None:
            sent, progress = attempt.sent_size, attempt.progress
            more["elapsed_s"] = attempt.elapsed
            more["done"] = None if progress is None else progress.done
            rest = estimator.remaining(job, builder, attempt.elapsed, progress)
            more["remaining_s"] = rest
        if builder is not None and sent is not None:
            more["own_estimate_s"] = own_estimate(sent, builder)
        spread = self._range(job, builder, 0.0 if attempt is None else attempt.elapsed)
        found = RunTime(
            p10_s=None if spread is None else spread.low,
            p90_s=None if spread is None else spread.high,
            estimate_s=estimator.estimate(job, builder),
            rung=basis.rung,
            samples=basis.samples,
            builder=None if builder is None else builder.id,
            pool=None if builder is None else builder.pool,
            speed=1.0 if builder is None else builder.speed,
            size=job.size,
            declared_s=job.declared_time,
        )
        return msgspec.structs.replace(found, **more, **self._client_side(job, builder, rest))

    def _range(self, job: Job, builder: Builder | None, elapsed: float) -> RunTimeRange | None:
        """Return P10 and P90 of a job's run time; ``elapsed``: how long it has run."""
        attempts = [
            RunningNow(
                self.jobs[name], self.builders[one.builder], self.at - one.elapsed, one.elapsed
            )
            for name, one in islice(self.running.items(), MAX_RUNNING)
            if name in self.jobs and one.builder in self.builders
        ]
        rest = range_of(self.learned, job, builder, elapsed=elapsed, running=attempts, at=self.at)
        return rest and RunTimeRange(rest.low + elapsed, rest.high + elapsed)

    def _client_side(
        self, job: Job, builder: Builder | None, rest: float | None
    ) -> dict[str, object]:
        """Return when the builder would be done with a job sent to it now, and end it.

        ``rest``: of a job that runs there already.
        """
        if builder is None:
            return {}
        time = self.estimator.estimate(job, builder)
        queued, left = (self._queue_delay(builder), time) if rest is None else (0.0, rest)
        found: dict[str, object] = {"back_in_s": queued + left}
        if self.size_bound is not None and job.size and time > 0:
            share = available(builder) if isinstance(self.estimator, Boinc) else 1.0
            found["limit_s"] = time_limit(self.size_bound, job.size / (time * share))
        if self.deadline is not None:
            found["late_s"] = max(0.0, queued + left - self.deadline)
            if rest is None:
                found["sent"] = check_deadline(queued, time, self.deadline).ok
        return found

    def _queue_delay(self, builder: Builder) -> float:
        """Return the time until a slot of the builder is free."""
        rests = [
            self.estimator.remaining(self.jobs[name], builder, one.elapsed, one.progress)
            for name, one in self.running.items()
            if one.builder == builder.id
        ]
        return min(rests) if len(rests) >= builder.slots else 0.0


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


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
    source: Path | None,
    redis: str | None,
    folder: Path,
    name: str | None = None,
    at: float | None = None,
) -> LearnedFarm:
    """Return the estimator of a run, a bundle, a snapshot or state file, or a live farm (None).

    ``name``: another estimator than the farm's own, which learns from a run directory or a bundle.
    ``at``: the instant of such a run at which is asked; None: its end.
    """
    if source is not None and is_bundle(source):
        return _of_bundle(source, name, at)
    if source is not None and source.is_dir():
        return _of_run(source, name, at)
    if at is not None:
        raise InputError(
            f"--at: found {format_roughly(at)}; allowed: with a run, or a bundle of records"
        )
    return _of_image(image_from(source, redis, folder), name)


def _of_run(path: Path, name: str | None, at: float | None) -> LearnedFarm:
    run = load_run(path, unfinished=True)
    scenario = run.scenario
    own = name is None or name == scenario.scheduling.runtime_estimates
    estimator = (
        seeded_estimator(scenario, played_again) if own else estimator_named(str(name), scenario)
    )
    learned = RuntimeDistribution(estimator)
    farm, learner = RecordedFarm(scenario, live=run.meta.world == "live"), Learner(learned)
    last = 0.0
    for entry in run.entries():
        if at is not None and entry.event.at > at:
            break
        last = entry.event.at
        farm.take(entry)
        if not entry.ignored:
            learner.take(entry.event)
    asked_at = last if at is None else at
    return LearnedFarm(
        learned=learned,
        at=asked_at,
        builders=farm.builders,
        jobs=farm.jobs,
        running={
            job: RunningAttempt(
                builder=start.builder,
                elapsed=max(0.0, asked_at - since),
                progress=farm.progress(job, asked_at),
                sent_size=start.size,
            )
            for job, (start, since) in farm.running.items()
        },
    )


def _of_bundle(path: Path, name: str | None, at: float | None) -> LearnedFarm:
    """Return what an estimator learns from the records of another farm, and that farm."""
    history = history_of(path)
    own = history.scenario.scheduling.runtime_estimates
    learned = RuntimeDistribution(estimator_named(own if name is None else name, history.scenario))
    learner = Learner(learned)
    builders: dict[str, Builder] = {}
    jobs: dict[str, Job] = {}
    running: dict[str, tuple[str, float]] = {}
    last = 0.0
    for entry in history.entries:
        event = entry.event
        if at is not None and event.at > at:
            break
        last = event.at
        learner.take(event)
        match event:
            case BuilderJoined():
                builders[event.builder.id] = event.builder
            case BuilderRetired():
                builders.pop(event.builder, None)
            case JobsSubmitted():
                jobs.update((job.id, job) for job in event.jobs)
            case JobStarted():
                running[event.job] = event.builder, event.at
            case JobFinished() | AttemptLost():
                running.pop(event.job, None)
    asked_at = last if at is None else at
    return LearnedFarm(
        learned=learned,
        at=asked_at,
        builders=builders,
        jobs=jobs,
        running={
            job: RunningAttempt(builder=builder, elapsed=asked_at - started_at)
            for job, (builder, started_at) in running.items()
        },
    )


def _of_image(image: FarmImage, name: str | None) -> LearnedFarm:
    scenario, snapshot = farm_of(image), image.snapshot
    own = scenario.scheduling.runtime_estimates
    if name is not None and name != own:
        raise InputError(
            f"--estimator: found {name!r}; this farm has learned for {own} alone: another one "
            "learns from a run directory"
        )
    learned = RuntimeDistribution(estimator_named(own, scenario))
    statistics = image.statistics or {}
    try:
        if statistics.get("estimator") == own:
            learned.load(statistics)
    except StateError as error:
        raise StateError(f"snapshot: statistics: {error}") from None
    records = [*snapshot.running, *snapshot.waiting]
    # those that have ended since they came, too: they say what jobs of a kind are like
    jobs = {} if image.recent is None else {job.id: job for job in image.recent.jobs}
    jobs |= {record.job.id: record.job for record in records}
    return LearnedFarm(
        learned=learned,
        at=snapshot.at,
        builders={one.builder.id: one.builder for one in snapshot.builders},
        jobs=jobs,
        running={
            record.job.id: RunningAttempt(
                builder=record.builder,
                elapsed=0.0 if record.started_at is None else snapshot.at - record.started_at,
                progress=image.progress.get(record.job.id),
                sent_size=record.sent_size,
            )
            for record in snapshot.running
            if record.builder is not None
        },
    )


def rungs_of(path: Path, names: Iterable[str]) -> list[RungScore]:
    """Return how right these estimators would have been on a finished run, or on a bundle.

    An estimator's score over all jobs comes first, then that of each rung.
    """
    scores: list[RungScore] = []
    if is_bundle(path):
        history = history_of(path)
        for name in names:
            scores += score_rungs(history.entries, estimator_named(name, history.scenario))
        return scores
    run = load_run(path, unfinished=True)
    for name in names:
        scores += score_rungs(run.entries(), estimator_named(name, run.scenario))
    return scores


LIKENESS = attrgetter(
    "pool", "estimate_s", "p10_s", "p90_s", "rung", "samples", "speed", "size_scale", "late_s"
)


def alike(rows: Iterable[RunTime]) -> list[tuple[RunTime, int]]:
    """Put builders of one pool with one answer together; return one of each with their number."""
    found: dict[tuple[object, ...], tuple[RunTime, int]] = {}
    for row in rows:
        first, count = found.get(key := LIKENESS(row), (row, 0))
        found[key] = (first, count + 1)
    return list(found.values())
