"""A recorded simulation of a scenario."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from farm.app.inputs import can_be_read_again, digests_of
from farm.app.recorded.replaying import replayed
from farm.app.recorded.run_recorder import KeptRun, RunRecorder, jobs_without_log
from farm.app.runs.own_parts import NONE, OwnParts
from farm.assembly import complaints, estimator_of, make_rules, run_info
from farm.core.driver import Observer
from farm.core.errors import InputError
from farm.forecasts.runtime.interface import RuntimeEstimator
from farm.results.run_directory import PlayedRun, Run
from farm.results.summary.figures import Counted, Figures
from farm.scenario import Scenario
from farm.sim.engines import (
    MOST_JOBS,
    CompiledRun,
    Engine,
    StreamedRun,
    Watch,
    chosen,
    play_seeds,
    why_held,
)
from farm.sim.garbage import no_garbage_collection
from farm.sim.setting import Setting
from farm.sim.too_large import expected_jobs, refuse_too_large
from farm.workload import Several, Workload
from provisioner.from_scenario import algorithms_of

if TYPE_CHECKING:
    from farm.sim.simulation import Around


def simulated_run(
    scenario: Scenario,
    *,
    own: OwnParts = NONE,
    out: Path | None = None,
    keep_events: bool = False,
    in_full: bool = True,
    observers: Sequence[Observer] = (),
    engine: Engine = "auto",
    load: Workload | None = None,
    watch: Watch | None = None,
    on_step: Callable[[str, float], None] = lambda *_: None,
) -> KeptRun:
    """Simulate a scenario and return the run.

    Args:
        scenario: what is played.
        own: parts of the caller's, in the place of what the scenario names.
        out: the run directory to make; None: the run is kept in memory.
        keep_events: in memory, the events are kept too.
        in_full: the run directory has its jobs and events; else a run of many jobs that is soon
            played again is kept as its inputs, and one of more than ``MOST_JOBS`` may have no jobs.
        observers: called with every event and its commands (a display), if the reference plays.
        engine: who plays it; the results are the same.
        load: the scenario's workload, where it is known; the scenario is not too large then.
        watch: given how far a compiled run is.
        on_step: given what of the rest is being done, and how much of that is (0 to 1).

    Raises InputError for a scenario that cannot be played, or not by that engine; no run directory
    is made then, nor where a compiled run is interrupted.
    """
    on_step("setting up", 0.0)
    estimator, around = _estimates_of(scenario, own)
    algorithms = algorithms_of(scenario, own.algorithms)
    setting = Setting.of(scenario, make_rules(scenario, own=own.functions), algorithms)
    in_full = in_full or own is not NONE or not can_be_read_again(scenario)
    held = "they are kept" if in_full or keep_events else ""
    if around is not None or engine == "reference":
        held = held or "the reference plays"
    held = held or why_held(scenario, setting, estimator)
    if load is None:
        refuse_too_large(scenario, held)
    inputs = digests_of(scenario) if out is not None or keep_events else {}
    began_playing = time.process_time()
    with no_garbage_collection():
        workload = load or own.load(scenario)
    record = partial(
        RunRecorder,
        scenario,
        "simulated",
        out,
        workload,
        inputs=inputs,
        keep_events=keep_events,
    )
    began = time.monotonic()
    run = chosen(
        setting,
        estimator,
        workload.jobs,
        engine=engine,
        log_below=jobs_without_log(out, in_full=in_full, keep_events=keep_events),
        discard_ended=not held,
        watch=watch,
        around=around,
    )
    if isinstance(run, CompiledRun | StreamedRun):
        log = run.log if isinstance(run, CompiledRun) else None
        recording = record(began=began, writes_log=log is not None)
        with no_garbage_collection(), recording as recorder:
            try:
                if log is not None:
                    recorder.take_log(log, partial(on_step, "writing events"))
                if isinstance(run, CompiledRun):
                    on_step("collecting jobs", 0.0)
                    records = run.records()
                else:
                    on_step("summing up", 0.0)
                    records = run.records(partial(on_step, "summing up"))
                return recorder.finish(
                    "fast", records=records, on_jobs=partial(on_step, "writing jobs")
                )
            except KeyboardInterrupt:
                recorder.discard()
                raise
    # the log of more jobs takes gigabytes
    writes_log = in_full or not MOST_JOBS < expected_jobs(scenario) < math.inf
    with record(writes_log=writes_log) as recorder:
        try:
            run.play([*recorder.observers, *observers])
        except KeyboardInterrupt:
            if writes_log:
                recorder.finish("reference", not_compiled=run.not_covered, state="interrupted")
            else:
                recorder.discard()
            raise
        except InputError:
            recorder.discard()
            raise
    guards = [*algorithms.values(), *run.world.behaviours.values()]
    warnings = complaints(run.scheduler, guards)
    play_time = None if in_full else time.process_time() - began_playing
    return recorder.finish(
        "reference", not_compiled=run.not_covered, warnings=warnings, play_time=play_time
    )


def _estimates_of(
    scenario: Scenario, own: OwnParts = NONE
) -> tuple[RuntimeEstimator, Around | None]:
    """Return a run's runtime estimator, and what adds dispatch estimates to its world, if any are.

    Raises InputError for an unknown estimator, and for what cannot be learned from.
    """
    estimates = scenario.estimates
    if estimates.rules or estimates.run_times:
        from farm.app.runs.estimating import Estimating  # noqa: PLC0415 - few runs ask for them

        estimating = Estimating(scenario, own, live=False, again=_again)
        return estimating.estimator, estimating.around if estimating.gives else None
    estimator = own.estimator or estimator_of(scenario)
    if estimates.learn_from is not None:
        from farm.app.runs.learning import seed_estimator  # noqa: PLC0415 - as above

        seed_estimator(estimator, estimates.learn_from, _again)
    return estimator, None


def _again(run: Run, events: bool) -> PlayedRun:
    """Play a run that is learned from, and is kept as its inputs."""
    return replayed(run, events, simulated_run)


def figures_of_seeds(
    scenario: Scenario, seeds: Sequence[int], load: Several
) -> list[Figures] | None:
    """Return the figures of a scenario with each seed, played and measured together.

    ``load``: its jobs with these seeds. None: each has to be played alone.
    """
    estimator, around = _estimates_of(scenario)
    if around is not None:
        return None
    info = run_info(scenario, "simulated", "fast")
    setting = Setting.of(scenario, make_rules(scenario), algorithms_of(scenario))
    runs = play_seeds(setting, estimator, load, seeds)
    if runs is None:
        return None
    records = runs.records.having(fair_share=info.fair_share)
    last_at = np.maximum(runs.last_at, info.until)
    return Counted(runs._replace(records=records, last_at=last_at), info).figures()
