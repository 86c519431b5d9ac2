"""A scenario played from beginning to end in virtual time, and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from farm.app.estimates import Estimating
from farm.app.own_parts import OwnParts
from farm.app.result import Result
from farm.app.run_recorder import RunRecorder
from farm.assembly import complaints, make_scheduler
from farm.core.driver import Observer
from farm.scenario import Scenario
from farm.sim.simulation import Simulation
from provisioner.from_scenario import algorithms_of


def simulated_run(
    scenario: Scenario,
    *,
    own: OwnParts | None = None,
    out: Path | None = None,
    keep_events: bool = False,
    observers: Sequence[Observer] = (),
) -> Result:
    """Simulate a scenario and return what it came to.

    Args:
        scenario: what is played.
        own: parts of the caller's, in the place of what the scenario names.
        out: the run directory to make; None: the run is kept in memory.
        keep_events: in memory, the events are kept too.
        observers: told of every event and its commands (a display).

    Raises InputError for a scenario that cannot be played; no run directory is made then.
    """
    own = own or OwnParts()
    estimating = Estimating(
        scenario, live=False, estimator=own.estimator, algorithms=own.algorithms
    )
    algorithms = algorithms_of(scenario, own.algorithms)
    simulation = Simulation(
        scenario,
        scheduler=make_scheduler(scenario, estimator=estimating.estimator, own=own.functions),
        algorithms=algorithms,
        around=estimating.around,
        load=own.load(scenario),
    )
    with RunRecorder(scenario, "simulated", out, keep_events=keep_events) as recorder:
        simulation.play([*recorder.observers, *observers])
    warnings = complaints(simulation.scheduler, algorithms.values())
    return recorder.finish("reference", warnings=warnings)
