"""A scenario played from beginning to end in virtual time, and recorded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from farm.app.estimates import Estimating
from farm.app.own_parts import OwnParts
from farm.app.result import Result
from farm.app.run_recorder import RunRecorder
from farm.assembly import complaints, make_scheduler, pool_specs
from farm.core.driver import Observer
from farm.core.errors import InputError
from farm.core.scheduler import Scheduler
from farm.scenario import Scenario
from farm.sim.fast.coverage import is_worth_it, why_not, why_not_these
from farm.sim.simulation import Load, Simulation
from provisioner.from_scenario import algorithms_of

Engine = Literal["auto", "reference", "fast"]
"""Who plays: the scheduler itself, the compiled loop over columns, or whoever is sooner done."""


def simulated_run(
    scenario: Scenario,
    *,
    own: OwnParts | None = None,
    out: Path | None = None,
    keep_events: bool = False,
    observers: Sequence[Observer] = (),
    engine: Engine = "auto",
) -> Result:
    """Simulate a scenario and return what it came to.

    Args:
        scenario: what is played.
        own: parts of the caller's, in the place of what the scenario names.
        out: the run directory to make; None: the run is kept in memory.
        keep_events: in memory, the events are kept too.
        observers: told of every event and its commands (a display).
        engine: who plays it; the results are the same.

    Raises InputError for a scenario that cannot be played, or not by that engine; no run directory
    is made then.
    """
    own = own or OwnParts()
    estimating = Estimating(
        scenario, live=False, estimator=own.estimator, algorithms=own.algorithms
    )
    scheduler = make_scheduler(scenario, estimator=estimating.estimator, own=own.functions)
    load = own.load(scenario)
    if engine != "reference":
        why = why_not(scheduler.rules, scheduler.estimator, pool_specs(scenario))
        if estimating.gives:
            why = "dispatch estimates"
        if not why:
            fast, load, why = _fast_run(
                scenario, scheduler, load, out, keep_events=keep_events, forced=engine == "fast"
            )
            if fast is not None:
                return fast
        if engine == "fast":
            raise InputError(f"--engine fast: does not cover {why}; allowed: auto, reference")
    simulation = Simulation(
        scenario,
        scheduler=scheduler,
        algorithms=algorithms_of(scenario, own.algorithms),
        around=estimating.around,
        load=load,
    )
    with RunRecorder(scenario, "simulated", out, keep_events=keep_events) as recorder:
        simulation.play([*recorder.observers, *observers])
    return recorder.finish("reference", warnings=complaints(simulation.scheduler))


def _fast_run(
    scenario: Scenario,
    scheduler: Scheduler,
    load: Load,
    out: Path | None,
    *,
    keep_events: bool,
    forced: bool,
) -> tuple[Result | None, Load, str]:
    """Play it by the compiled loop if that is ``forced`` or worth it; else None, and why.

    The load is returned too: it has been looked at.
    """
    began, batches = time.monotonic(), list(load)
    jobs = list(chain.from_iterable(together for _, together in batches))
    if not (forced or is_worth_it(len(jobs))):
        return None, iter(batches), ""
    if why := why_not_these(scheduler.rules, jobs):
        return None, iter(batches), why

    from farm.sim.fast.columns import play  # noqa: PLC0415 - Numba, for those who need it
    from farm.sim.fast.story import records, story  # noqa: PLC0415 - likewise

    noted = out is not None or keep_events
    specs = pool_specs(scenario)
    ends_at = scenario.phases.ends_at if scenario.phases is not None else 0.0
    played = play(
        scheduler.rules, scheduler.estimator, specs, batches, ends_at=ends_at, noted=noted
    )
    if played is None:
        return None, iter(batches), "jobs that have to be given up"
    with RunRecorder(scenario, "simulated", out, keep_events=keep_events, began=began) as recorder:
        if noted:
            for event, commands in story(played):
                for observe in recorder.observers:
                    observe(event, commands)
    return recorder.finish("fast", records=None if noted else records(played)), load, ""
