"""The records of a simulation, by either engine, if nothing else of it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farm.assembly import make_scheduler
from farm.core.pools.algorithm import Algorithm
from farm.results.summary.records import Recorder, RunRecords
from farm.scenario.model import Scenario
from farm.sim.fast.choice import try_fast
from farm.sim.simulation import Simulation, no_garbage_collection
from farm.workload import batches, build_jobs


def simulated_records(
    scenario: Scenario, algorithms: Mapping[str, Algorithm[Any]] | None = None, *, runs: int = 1
) -> RunRecords:
    """Simulate a scenario without dispatch estimates; return a recorder's records.

    ``runs``: the number of similar runs, in this process or another.
    """
    scheduler = make_scheduler(scenario)
    load = build_jobs(scenario)
    with no_garbage_collection():
        found = try_fast(scenario, scheduler, load, algorithms or {}, runs=runs)
        if found.played is not None:
            from farm.sim.fast.story import records  # noqa: PLC0415 - Numba, where it was used

            return records(found.played)
    recorder = Recorder()
    simulation = Simulation(
        scenario, scheduler=scheduler, algorithms=algorithms, load=batches(found.load)
    )
    simulation.play([recorder])
    return recorder.records()
