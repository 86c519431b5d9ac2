"""A recorded simulation of a scenario."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from farm.app.recorded.result import Result
from farm.app.recorded.run_recorder import RunRecorder
from farm.app.runs.estimates import Estimating
from farm.app.runs.own_parts import OwnParts
from farm.assembly import complaints, make_scheduler
from farm.core.driver import Observer
from farm.core.errors import InputError, not_among
from farm.scenario import Scenario
from farm.sim.fast.engine_choice import Try, try_fast
from farm.sim.simulation import Simulation, no_garbage_collection
from farm.sim.too_large import refuse_too_large
from farm.workload import batches
from provisioner.from_scenario import algorithms_of

if TYPE_CHECKING:
    from farm.sim.fast.play import Played

Engine = Literal["auto", "reference", "fast"]
"""The scheduler itself, the compiled loop, or whichever finishes sooner."""


def simulated_run(
    scenario: Scenario,
    *,
    own: OwnParts | None = None,
    out: Path | None = None,
    keep_events: bool = False,
    observers: Sequence[Observer] = (),
    engine: Engine = "auto",
    runs: int = 1,
) -> Result:
    """Simulate a scenario and return its result.

    Args:
        scenario: what is played.
        own: parts of the caller's, in the place of what the scenario names.
        out: the run directory to make; None: the run is kept in memory.
        keep_events: in memory, the events are kept too.
        observers: called with every event and its commands (a display).
        engine: who plays it; the results are the same.
        runs: how many runs like this one are to be made.

    Raises InputError for a scenario that cannot be played, or not by that engine; no run directory
    is made then.
    """
    if engine not in get_args(Engine):
        raise InputError(f"engine: {not_among(engine, get_args(Engine))}")
    own = own or OwnParts()
    estimating = Estimating(
        scenario, live=False, estimator=own.estimator, algorithms=own.algorithms
    )
    refuse_too_large(scenario)
    algorithms = algorithms_of(scenario, own.algorithms)
    scheduler = make_scheduler(scenario, estimator=estimating.estimator, own=own.functions)
    workload = own.load(scenario)
    load = workload.jobs
    record = partial(RunRecorder, scenario, "simulated", out, workload, keep_events=keep_events)
    if engine != "reference":
        began, noted = time.monotonic(), out is not None or keep_events
        forced = engine == "fast"
        found = Try(load, why="dispatch estimates")
        if not estimating.gives:
            with no_garbage_collection():
                found = try_fast(
                    scenario, scheduler, load, algorithms, forced=forced, noted=noted, runs=runs
                )
        load = found.load
        if found.played is not None:
            return _told(found.played, record(began=began))
        if forced:
            raise InputError(f"--engine fast: does not cover {found.why}; allowed: auto, reference")
    simulation = Simulation(
        scenario,
        scheduler=scheduler,
        algorithms=algorithms,
        around=estimating.around,
        load=batches(load),
    )
    with record() as recorder:
        try:
            simulation.play([*recorder.observers, *observers])
        except KeyboardInterrupt:
            recorder.finish("reference", state="interrupted")
            raise
        except InputError:
            recorder.discard()
            raise
    guards = [*algorithms.values(), *simulation.world.behaviours.values()]
    warnings = complaints(simulation.scheduler, guards)
    return recorder.finish("reference", warnings=warnings)


def _told(played: Played, recorder: RunRecorder) -> Result:
    """Return the result of a fast play; its events are made only where they are kept."""
    from farm.sim.fast.event_log import log_of  # noqa: PLC0415 - Numba, where it was used
    from farm.sim.fast.run_records import records  # noqa: PLC0415 - likewise

    with no_garbage_collection(), recorder:
        recorder.take_log(log_of(played))
        return recorder.finish("fast", records=records(played))
