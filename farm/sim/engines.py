"""Plays a scenario in virtual time: here the engine is chosen, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from farm.assembly import estimator_of, make_rules
from farm.core.commands import Command, EndJob
from farm.core.errors import InputError, not_among
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import KeyFunction, takes_columns
from farm.core.rules import Estimator, SchedulingRules
from farm.forecasts.runtime.oracle import Oracle
from farm.results.summary.tally import Tallied, Tally
from farm.results.table.columns import Floats
from farm.results.table.records import Recorder, RunRecords
from farm.results.table.runs import Runs
from farm.scenario import Scenario
from farm.sim.fast.coverage import Properties, why_not, why_not_these
from farm.sim.fast.event_log import AT_ONCE, log_of
from farm.sim.fast.job_arrays import JobArrays, Jobs, load_of, loads_of
from farm.sim.fast.play import PlayedFarm, Watch, ends_of_each
from farm.sim.fast.play import play as play_columns
from farm.sim.fast.run_records import play_together, records, started_at_of
from farm.sim.fast.streamed import play_streamed
from farm.sim.garbage import no_garbage_collection
from farm.sim.setting import Algorithms, Setting
from farm.workload import Several, batches
from farm.workload.columns import JobColumns

if TYPE_CHECKING:  # the reference's world, for where it plays
    from farm.sim.simulation import Around, Simulation

K = TypeVar("K", bound=Hashable)
Engine = Literal["auto", "reference", "fast"]
"""The scheduler itself, the compiled loop, or the latter wherever it can."""

MOST_JOBS = 3_000_000
"""Jobs held in memory at a time unless the fast engine is asked for: a load may have no end."""


class CompiledRun:
    """A run that the compiled loop has made: nothing observed it, and it only has to be read."""

    def __init__(self, played: PlayedFarm) -> None:
        self._played = played
        #: the event log; None: its events were not noted
        self.log = EventLog(played) if len(played.farm.notes) else None

    def waits(self) -> Floats:
        """Return start - arrival of each job (s), by arrival; nan: it never started."""
        farm = self._played.farm
        waits: Floats = started_at_of(farm, slice(None)) - farm.jobs["submitted_at"]
        return np.where(farm.jobs["ended"] != 0, waits, np.nan)

    def records(self) -> RunRecords:
        """Return what a recorder would have recorded, once: arrays that no log needs are let go."""
        found = records(self._played)
        del self._played
        return found


class EventLog:
    """The event log of a compiled run in pieces of whole lines, made each time it is read."""

    def __init__(self, played: PlayedFarm) -> None:
        self._played = played

    def __iter__(self) -> Iterator[bytes]:
        return log_of(self._played)

    def __len__(self) -> int:
        return 1 + -(-int(self._played.farm.counts["noted"][0]) // AT_ONCE)


class StreamedRun:
    """A run that the compiled loop has made of jobs that it let go; it has no event log."""

    def __init__(self, records: Tallied) -> None:
        self._records = records

    def records(self, on_share: Callable[[float], object] = float) -> RunRecords:
        """Return what was recorded; ``on_share`` is given how much is summed up, 0 to 1."""
        for share in self._records.tally.measure():
            on_share(share)
        return self._records


def play(
    setting: Setting, estimator: Estimator, load: Iterable[Job], *, engine: Engine = "auto"
) -> RunRecords:
    """Play a load and return the records of the run; arguments and errors as for ``chosen``."""
    run = chosen(setting, estimator, load, engine=engine)
    return records_of(run)


def simulation(
    setting: Setting, estimator: Estimator, load: Iterable[Job], around: Around | None = None
) -> Simulation:
    """Return the simulation of a load by the scheduler itself, which is to be played."""
    from farm.core.scheduler import Scheduler  # noqa: PLC0415 - most runs are compiled
    from farm.sim.simulation import Simulation  # noqa: PLC0415 - as the scheduler

    scheduler = Scheduler(setting.rules, estimator, setting.pools)
    return Simulation(setting, scheduler, batches(load), around)


def records_of(run: Simulation | CompiledRun | StreamedRun) -> RunRecords:
    """Return the records of a run; a simulation is played for them."""
    return run.records() if isinstance(run, CompiledRun | StreamedRun) else recorded(run)


def recorded(run: Simulation) -> RunRecords:
    """Play a simulation and return its records."""
    recorder = Recorder()
    run.play([recorder])
    return recorder.records()


def chosen(
    setting: Setting,
    estimator: Estimator,
    load: Iterable[Job],
    *,
    engine: Engine = "auto",
    log_below: float = 0,
    discard_ended: bool = False,
    around: Around | None = None,
    watch: Watch | None = None,
) -> Simulation | CompiledRun | StreamedRun:
    """Return the run of a load by the engine asked for, or by the compiled one wherever it can.

    A simulation still has to be played, with its observers; a compiled run is over.

    Args:
        setting: what they are played on.
        estimator: of run times; what it knows is what it knew before the run.
        load: the jobs by arrival; they are only read as far as needed.
        engine: which.
        log_below: the event log of a compiled run of fewer jobs than this will be needed: to note
            its events takes as long again as to play it.
        discard_ended: of more than ``MOST_JOBS`` only the open ones need be held: nothing but a
            summary will be needed, and ``why_whole`` has found nothing against it.
        around: wraps the world of a simulation.
        watch: given how far a compiled run is, which can then be interrupted.

    Raises InputError for an engine that does not exist, or does not cover the scenario.
    """
    if engine not in get_args(Engine):
        raise InputError(f"engine: {not_among(engine, get_args(Engine))}")
    if engine == "reference":
        return simulation(setting, estimator, load, around)
    if around is not None:
        fast = _FastResult(load, refusal="dispatch estimates")
    else:
        limit = None if engine == "fast" else MOST_JOBS
        with no_garbage_collection():
            fast = _try_compiled(
                setting,
                estimator,
                load,
                log_below=log_below,
                may_stream=discard_ended and log_below < math.inf,
                limit=limit,
                watch=watch,
            )
    if fast.run is not None:
        return fast.run
    if engine == "fast":
        raise InputError(f"--engine fast: does not cover {fast.refusal}; allowed: auto, reference")
    return simulation(setting, estimator, fast.load, around)


def play_seeds(
    setting: Setting, estimator: Estimator, load: Several, seeds: Sequence[int]
) -> Runs | None:
    """Play the jobs of several seeds by the compiled loop, in the same tables.

    None: the loop does not cover them all, or something but the jobs is drawn.
    """
    policy, jobs = setting.rules.policy, JobColumns.of(load.jobs)
    drawn = any(pool.fails_to_boot or pool.lifetime or pool.boot_delay for pool in setting.pools)
    drawn = drawn or setting.rules.heavy_light is not None
    if drawn or not takes_columns(policy) or not _covers(setting, estimator, jobs):
        return None
    with no_garbage_collection():
        return play_together(*loads_of(policy, estimator, jobs, load.ends), setting, seeds)


class Case(NamedTuple):
    """Job sets with the same number of jobs, arrivals and matrices; and what they are played on."""

    sets: Sequence[Sequence[Job]]
    setting: Setting

    def ends(self, jobs: Sequence[Job]) -> list[float]:
        """Simulate one set by the scheduler itself; return when each job ended (s), in order."""
        ended: dict[str, float] = {}

        def observe(_: Event, commands: Sequence[Command]) -> None:
            for command in commands:
                if type(command) is EndJob:
                    ended[command.job.id] = command.finished_at

        simulation(self.setting, Oracle(), iter(jobs)).play([observe])
        return [ended[job.id] for job in jobs]


def ends_of_cases(cases: Mapping[K, Case]) -> dict[K, Floats]:
    """Play all sets of all cases; return when each job ended (s), by set and job.

    Run times are known beforehand. Sets and policies of several cases are made into columns once.
    """
    loads: dict[tuple[int, KeyFunction], list[JobArrays]] = {}
    begun = {}
    with ThreadPoolExecutor() as threads:  # compiled code holds no lock
        for name, (sets, setting) in cases.items():
            loses = any(pool.loses for pool in setting.pools)
            judges = setting.rules.max_resets is not None  # which jobs fail differs by set
            judges = judges or setting.rules.heavy_light is not None
            if loses or judges or not _covers(setting, Oracle(), sets[0]):
                continue
            key = (id(sets), setting.rules.policy)
            if key not in loads:
                loads[key] = [load_of(setting.rules.policy, Oracle(), jobs) for jobs in sets]
            begun[name] = threads.submit(ends_of_each, loads[key], setting.pools, setting.rules)
        return {
            name: begun[name].result() if name in begun else np.array([*map(one.ends, one.sets)])
            for name, one in cases.items()
        }


class OneLoad:
    """Jobs by arrival that are played on many farms; as columns they are made once."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self._columns: dict[object, JobArrays] = {}

    @cached_property
    def properties(self) -> Properties:
        """What the compiled loop asks of jobs."""
        return Properties.of(self.jobs)

    def columns(self, rules: SchedulingRules, estimator: Estimator) -> JobArrays:
        """Return the load in the order of a policy, by estimates that are of the jobs alone."""
        policy, held = rules.policy, rules.heavy_light
        key = policy, type(estimator), held is not None, held is not None and held.heavy_first
        if key not in self._columns:
            self._columns[key] = load_of(policy, estimator, self.jobs, heavy_light=held)
        return self._columns[key].copy()

    def waits(self, scenario: Scenario, algorithms: Algorithms) -> Floats:
        """Return start - arrival of each job (s), by arrival; nan: it never started.

        The scenario's own workload is not played. The jobs have ids of their own. Raises
        InputError for what cannot be played.
        """
        setting = Setting.of(scenario, make_rules(scenario), algorithms)
        run = chosen(setting, estimator_of(scenario), self)
        if isinstance(run, CompiledRun):
            return run.waits()
        jobs = records_of(run).jobs
        waits = np.full(len(self.jobs), np.nan)
        places = {job.id: place for place, job in enumerate(self.jobs)}
        waits[[places[name] for name in jobs.job_id]] = jobs.waiting_time
        return waits

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)


class _FastResult(NamedTuple):
    """A run by the compiled loop, or the reason why there is none."""

    #: the whole load, some of which may have been drawn already
    load: Iterable[Job]
    run: CompiledRun | StreamedRun | None = None
    #: what the compiled loop does not cover
    refusal: str = ""


def _try_compiled(
    setting: Setting,
    estimator: Estimator,
    load: Iterable[Job],
    *,
    log_below: float,
    may_stream: bool,
    limit: int | None,
    watch: Watch | None,
) -> _FastResult:
    """Play a load by the compiled loop, if it covers the setting and the jobs.

    Args:
        setting: what they are played on.
        estimator: of the scheduler.
        load: the jobs by arrival.
        log_below: the event log of fewer jobs than this will be needed.
        may_stream: a load of more than ``MOST_JOBS`` may be played without holding its jobs.
        limit: jobs that may be held in memory; None: all.
        watch: given how far the run is.
    """
    refusal = why_not(setting, estimator)
    if refusal:
        return _FastResult(load, refusal=refusal)
    if may_stream and isinstance(load, JobColumns) and not load.hold(MOST_JOBS):
        return _FastResult(load, _streamed(setting, estimator, load, watch))

    jobs, load, is_whole = _held(load, limit)
    if not is_whole:
        return _FastResult(load, refusal=f"more than {limit:,} jobs")
    properties = load.properties if isinstance(load, OneLoad) else Properties.of(jobs)
    refusal = why_not_these(setting, properties)
    if refusal:
        return _FastResult(load, refusal=refusal)

    rules = setting.rules
    if isinstance(load, OneLoad):
        columns = load.columns(rules, estimator)
    else:
        columns = load_of(rules.policy, estimator, jobs, heavy_light=rules.heavy_light)
    noted = len(jobs) < log_below
    played = play_columns(columns, setting, noted=noted, watch=watch)
    if played is None:
        return _FastResult(load, refusal="builders that come and go at one instant")
    return _FastResult(load, CompiledRun(played))


def _streamed(
    setting: Setting, estimator: Estimator, load: JobColumns, watch: Watch | None
) -> StreamedRun:
    """Play a load that does not fit into memory: only its open jobs are held.

    Raises InputError if a job has to be given up, as only the reference covers that, and the first
    jobs cannot be drawn again.
    """
    # there are no invocations, as fair share is not covered
    tally = Tally((), [pool.name for pool in setting.pools])
    if watch is None:
        records = play_streamed(load.blocks(), estimator, setting, tally)
    else:
        records = play_streamed(load.blocks(), estimator, setting, tally, watch=watch)
    if records is None:
        raise InputError(
            "found jobs that have to be given up; allowed in a run of more than "
            f"{MOST_JOBS:,}: none, unless with --engine reference"
        )
    return StreamedRun(records)


def _covers(setting: Setting, estimator: Estimator, jobs: Jobs) -> bool:
    return not (why_not(setting, estimator) or why_not_these(setting, Properties.of(jobs)))


def _held(load: Iterable[Job], most: int | None) -> tuple[Jobs, Iterable[Job], bool]:
    """Return the first jobs, held; all jobs; and whether those are the same."""
    if isinstance(load, JobColumns):
        whole = load.hold(most)
        return load, load, whole
    if isinstance(load, OneLoad):
        return load.jobs, load, most is None or len(load.jobs) < most
    jobs = iter(load)
    held = list(islice(jobs, most))
    return held, chain(held, jobs), most is None or len(held) < most
