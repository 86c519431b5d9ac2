"""Simulates many job sets, of which only the ends of the jobs are wanted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from farm.core.commands import Command, EndJob
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import KeyFunction
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle
from farm.sim.fast.coverage import Properties, why_not, why_not_these
from farm.sim.fast.job_arrays import Load, load_of
from farm.sim.fast.play import ends_of_each
from farm.sim.setting import Setting
from farm.sim.simulation import play
from farm.sim.world import SimulatedWorld
from farm.workload import batches

K = TypeVar("K", bound=Hashable)


class Case(NamedTuple):
    """Job sets with the same number of jobs, arrivals and matrices; and a farm."""

    sets: Sequence[Sequence[Job]]
    pools: Sequence[PoolSpec]
    rules: SchedulingRules


def ends_of(jobs: Sequence[Job], pools: Sequence[PoolSpec], rules: SchedulingRules) -> list[float]:
    """Simulate one job set by the scheduler itself; return when each job ended (s), in order."""
    ended: dict[str, float] = {}

    def observe(_: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if type(command) is EndJob:
                ended[command.job.id] = command.finished_at

    world = SimulatedWorld(pools, batches(iter(jobs)))
    play(Scheduler(rules, Oracle(), pools), world, [observe])
    return [ended[job.id] for job in jobs]


def ends_of_cases(cases: Mapping[K, Case]) -> dict[K, npt.NDArray[np.float64]]:
    """Simulate all sets of all cases; return when each job ended (s), by set and job.

    By the compiled loop if it covers all cases, else by the scheduler itself. Run times are known
    beforehand.
    """
    if not any(map(_why_not, cases.values())):
        return _compiled(cases)
    return {
        name: np.array([ends_of(jobs, one.pools, one.rules) for jobs in one.sets])
        for name, one in cases.items()
    }


def _why_not(case: Case) -> str:
    if any(pool.loses for pool in case.pools):
        return "builders that retire or are lost"
    setting = Setting(case.pools, case.rules)
    return why_not(setting, Oracle()) or why_not_these(setting, Properties.of(case.sets[0]))


def _compiled(cases: Mapping[K, Case]) -> dict[K, npt.NDArray[np.float64]]:
    """Simulate in threads: compiled code holds no lock."""
    loads: dict[tuple[int, KeyFunction], list[Load]] = {}
    played = {}
    with ThreadPoolExecutor() as threads:
        for name, (sets, pools, rules) in cases.items():
            key = (id(sets), rules.policy)
            if key not in loads:
                loads[key] = [load_of(rules.policy, Oracle(), jobs) for jobs in sets]
            played[name] = threads.submit(ends_of_each, loads[key], pools, rules)
        return {name: play.result() for name, play in played.items()}
