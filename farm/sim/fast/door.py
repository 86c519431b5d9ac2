"""The door of the compiled loop: whatever it plays is played from here.

Only ``farm.sim.engines`` comes through it. The loop plays what ``coverage`` says; ``job_arrays``,
``play`` and ``streamed`` make a farm in arrays and run it; ``run_records`` and ``event_log`` make
of the arrays what the reference would have recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from farm.columns import Floats
from farm.core.errors import InputError
from farm.core.model import Job
from farm.core.policies import KeyFunction, takes_columns
from farm.core.rules import Estimator, SchedulingRules
from farm.forecasts.runtime.oracle import Oracle
from farm.results.summary.tally import Tallied, Tally
from farm.results.table.recorder import RunRecords
from farm.results.table.runs import Runs
from farm.scenario import Scenario
from farm.sim.fast.coverage import FEEDBACK, Properties, why_not, why_not_these, why_whole
from farm.sim.fast.event_log import AT_ONCE, log_of
from farm.sim.fast.job_arrays import JobArrays, Jobs, load_of, loads_of
from farm.sim.fast.kernel import native
from farm.sim.fast.play import PlayedFarm, Watch, ends_of_each
from farm.sim.fast.play import play as play_columns
from farm.sim.fast.run_records import play_together, records, started_at_of
from farm.sim.fast.streamed import play_streamed
from farm.sim.garbage import no_garbage_collection
from farm.sim.setting import Setting
from farm.workload import Several
from farm.workload.blocks import JobColumns

__all__ = [
    "FEEDBACK",
    "CompiledRun",
    "Outcome",
    "ReusedLoad",
    "StreamedRun",
    "Watch",
    "ends_of_sets",
    "is_compiled",
    "play",
    "play_seeds",
    "why_held",
]

K = TypeVar("K", bound=Hashable)


def is_compiled() -> bool:
    """Return whether the loop is compiled here."""
    return native.is_there()


def why_held(scenario: Scenario, setting: Setting, estimator: Estimator) -> str:
    """Return the first property for which all jobs have to be held in memory; empty: none."""
    return why_not(setting, estimator) or why_whole(scenario, setting)


class CompiledRun:
    """A run that the compiled loop has made: nothing observed it, and it only has to be read."""

    def __init__(self, played: PlayedFarm) -> None:
        self._played = played
        #: the event log; None: its events were not noted
        self.log = EventLog(played) if len(played.farm.notes) else None

    def waits(self) -> Floats:
        """Return start - release of each job (s), by arrival; nan: it never started."""
        farm = self._played.farm
        since = farm.jobs["submitted_at"]
        if self._played.load.needs is not None:
            released_at = farm.blocking["released_at"][:-1]
            since = np.where(self._played.load.needs.has_needs, released_at, since)
        waits: Floats = started_at_of(farm, slice(None)) - since
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


class ReusedLoad:
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

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)


class Outcome(NamedTuple):
    """A run by the compiled loop, or the reason why there is none."""

    #: the whole load, some of which may have been drawn already
    load: Iterable[Job]
    run: CompiledRun | StreamedRun | None = None
    #: what the compiled loop does not cover
    refusal: str = ""


def play(
    setting: Setting,
    load: Iterable[Job],
    estimator: Estimator,
    *,
    most_held: int,
    holds_all: bool = False,
    log_below: float = 0,
    may_stream: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Play a load by the compiled loop, if it covers the setting and the jobs.

    Args:
        setting: what they are played on.
        load: the jobs by arrival; they are only read as far as needed.
        estimator: of the scheduler.
        most_held: jobs that may be held in memory.
        holds_all: all of them may.
        log_below: the event log of fewer jobs than this will be needed.
        may_stream: a load of more than ``most_held`` may be played without holding its jobs.
        watch: given how far the run is.

    Raises InputError for jobs that have to be given up in a run that holds only the open ones.
    """
    with no_garbage_collection():
        refusal = why_not(setting, estimator)
        if refusal:
            return Outcome(load, refusal=refusal)
        if may_stream and isinstance(load, JobColumns) and not load.hold(most_held):
            return Outcome(load, _streamed(setting, estimator, load, most_held, watch))
        return _played_whole(
            setting,
            load,
            estimator,
            limit=None if holds_all else most_held,
            log_below=log_below,
            watch=watch,
        )


def _played_whole(
    setting: Setting,
    load: Iterable[Job],
    estimator: Estimator,
    *,
    limit: int | None,
    log_below: float,
    watch: Watch | None,
) -> Outcome:
    """Play a load whose jobs are all held, at most ``limit`` of them (None: any number)."""
    jobs, load, is_whole = _held(load, limit)
    if not is_whole:
        return Outcome(load, refusal=f"more than {limit:,} jobs")
    properties = load.properties if isinstance(load, ReusedLoad) else Properties.of(jobs)
    refusal = why_not_these(setting, properties)
    if refusal:
        return Outcome(load, refusal=refusal)

    rules = setting.rules
    if isinstance(load, ReusedLoad):
        columns = load.columns(rules, estimator)
    else:
        columns = load_of(rules.policy, estimator, jobs, heavy_light=rules.heavy_light)
    noted = len(jobs) < log_below
    played = play_columns(columns, setting, noted=noted, watch=watch)
    if played is None:
        return Outcome(load, refusal="builders that come and go at one instant")
    return Outcome(load, CompiledRun(played))


def _streamed(
    setting: Setting,
    estimator: Estimator,
    load: JobColumns,
    most_held: int,
    watch: Watch | None,
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
            f"{most_held:,}: none, unless with --engine reference"
        )
    return StreamedRun(records)


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


class JobSets(Protocol):
    """Job sets with the same number of jobs, arrivals and matrices; and what they are played on."""

    @property
    def sets(self) -> Sequence[Sequence[Job]]:
        """The sets."""

    @property
    def setting(self) -> Setting:
        """What each of them is played on."""


def ends_of_sets(cases: Mapping[K, JobSets]) -> dict[K, Floats]:
    """Play all sets of the cases that are covered; return when each job ended (s).

    That is by set and job. Run times are known beforehand. Sets and policies of several cases are
    made into columns once.
    """
    loads: dict[tuple[int, KeyFunction], list[JobArrays]] = {}
    begun = {}
    with ThreadPoolExecutor() as threads:  # compiled code holds no lock
        for name, case in cases.items():
            sets, setting = case.sets, case.setting
            loses = any(pool.loses for pool in setting.pools)
            judges = setting.rules.max_resets is not None  # which jobs fail differs by set
            judges = judges or setting.rules.heavy_light is not None
            needing = Properties.of(sets[0]).needs_others
            if loses or judges or needing or not _covers(setting, Oracle(), sets[0]):
                continue
            key = (id(sets), setting.rules.policy)
            if key not in loads:
                loads[key] = [load_of(setting.rules.policy, Oracle(), jobs) for jobs in sets]
            begun[name] = threads.submit(ends_of_each, loads[key], setting.pools, setting.rules)
        return {name: ends.result() for name, ends in begun.items()}


def _covers(setting: Setting, estimator: Estimator, jobs: Jobs) -> bool:
    return not (why_not(setting, estimator) or why_not_these(setting, Properties.of(jobs)))


def _held(load: Iterable[Job], most: int | None) -> tuple[Jobs, Iterable[Job], bool]:
    """Return the first jobs, held; all jobs; and whether those are the same."""
    if isinstance(load, JobColumns):
        whole = load.hold(most)
        return load, load, whole
    if isinstance(load, ReusedLoad):
        return load.jobs, load, most is None or len(load.jobs) < most
    jobs = iter(load)
    held = list(islice(jobs, most))
    return held, chain(held, jobs), most is None or len(held) < most
