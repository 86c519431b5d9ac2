"""Plays a scenario in virtual time: here the engine is chosen, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from farm.assembly import estimator_of, make_rules
from farm.columns import Floats
from farm.core.commands import Command, EndJob
from farm.core.errors import InputError, not_among
from farm.core.events import Event
from farm.core.model import Job
from farm.core.rules import Estimator
from farm.forecasts.runtime.oracle import Oracle
from farm.results.table.recorder import Recorder, RunRecords
from farm.scenario import Scenario
from farm.sim.fast import door as fast
from farm.sim.fast.door import (
    FEEDBACK,
    CompiledRun,
    ReusedLoad,
    StreamedRun,
    Watch,
    is_compiled,
    play_seeds,
    why_held,
)
from farm.sim.setting import Algorithms, Setting
from farm.workload import FeedbackLoad, batches, needed_of

if TYPE_CHECKING:  # the reference's world, for where it plays
    from farm.sim.simulation import Around, Simulation

__all__ = [
    "MOST_JOBS",
    "Case",
    "CompiledRun",
    "Engine",
    "OneLoad",
    "StreamedRun",
    "Watch",
    "chosen",
    "ends_of_cases",
    "is_compiled",
    "play",
    "play_seeds",
    "recorded",
    "records_of",
    "simulation",
    "why_held",
]

K = TypeVar("K", bound=Hashable)
Engine = Literal["auto", "reference", "fast"]
"""The scheduler itself, the compiled loop, or the latter wherever it can."""

MOST_JOBS = 3_000_000
"""Jobs held in memory at a time unless the fast engine is asked for: a load may have no end."""


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
    needed = needed_of(load.jobs if isinstance(load, ReusedLoad) else load)
    return Simulation(setting, scheduler, batches(load), around, needed)


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

    A simulation still has to be played, with its observers, and says what the compiled loop did not
    cover of it (``not_covered``); a compiled run is over.

    Args:
        setting: what they are played on.
        estimator: of run times; what it knows is what it knew before the run.
        load: the jobs by arrival; they are only read as far as needed.
        engine: which.
        log_below: the event log of a compiled run of fewer jobs than this will be needed: to note
            its events takes as long again as to play it.
        discard_ended: of more than ``MOST_JOBS`` only the open ones need be held: nothing but a
            summary will be needed, and ``why_held`` has found nothing against it.
        around: wraps the world of a simulation.
        watch: given how far a compiled run is, which can then be interrupted.

    Raises InputError for an engine that does not exist, or does not cover the scenario.
    """
    if engine not in get_args(Engine):
        raise InputError(f"engine: {not_among(engine, get_args(Engine))}")
    if engine == "reference":
        return simulation(setting, estimator, load, around)
    if around is not None:
        outcome = fast.Outcome(load, refusal="dispatch estimates")
    elif isinstance(load, FeedbackLoad):
        outcome = fast.Outcome(load, refusal=FEEDBACK)
    else:
        outcome = fast.play(
            setting,
            load,
            estimator,
            most_held=MOST_JOBS,
            log_below=log_below,
            holds_all=engine == "fast",
            may_stream=discard_ended and log_below < math.inf,
            watch=watch,
        )
    if outcome.run is not None:
        return outcome.run
    if engine == "fast":
        raise InputError(
            f"--engine fast: does not cover {outcome.refusal}; allowed: auto, reference"
        )
    played = simulation(setting, estimator, outcome.load, around)
    played.not_covered = outcome.refusal
    return played


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
    ends = fast.ends_of_sets(cases)
    return {
        name: ends[name] if name in ends else np.array([*map(case.ends, case.sets)])
        for name, case in cases.items()
    }


class OneLoad(ReusedLoad):
    """Jobs by arrival that are played on many farms, by either engine."""

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
