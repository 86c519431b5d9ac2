"""A recorded simulation of a scenario."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from farm.app.recorded.result import Result
from farm.app.recorded.run_recorder import RunRecorder
from farm.app.runs.estimates import Estimating
from farm.app.runs.own_parts import NONE, OwnParts
from farm.assembly import complaints, run_info
from farm.core.driver import Observer
from farm.core.errors import InputError
from farm.results.run_directory import Run
from farm.results.summary.figures import Counted, Figures
from farm.results.summary.summary import Summary
from farm.results.table.job_table import JobTable
from farm.scenario import Scenario
from farm.sim.engines import CompiledRun, Engine, chosen, play_seeds
from farm.sim.fast.coverage import why_whole
from farm.sim.fast.play import Watch
from farm.sim.setting import Setting
from farm.sim.simulation import Simulation, no_garbage_collection
from farm.sim.too_large import refuse_too_large
from farm.workload import Several, Workload
from provisioner.from_scenario import algorithms_of

MOST_AGAIN = 20_000_000
"""Jobs that are simulated again to be looked at: they are held, in 200 bytes each."""


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
) -> Result:
    """Simulate a scenario and return its result.

    Args:
        scenario: what is played.
        own: parts of the caller's, in the place of what the scenario names.
        out: the run directory to make; None: the run is kept in memory.
        keep_events: in memory, the events are kept too.
        in_full: the run directory has its jobs and events, not only the scenario and the summary;
            else the result of a run of more than ``MOST_JOBS`` may have none.
        observers: called with every event and its commands (a display), if the reference plays.
        engine: who plays it; the results are the same.
        load: the scenario's workload, where it is known; the scenario is not too large then.
        watch: given how far a compiled run is.
        on_step: given what of the rest is being done, and how much of that is (0 to 1).

    Raises InputError for a scenario that cannot be played, or not by that engine; no run directory
    is made then, nor where a compiled run is interrupted.
    """
    on_step("setting up", 0.0)
    estimating = Estimating(scenario, own, live=False)
    if load is None:
        refuse_too_large(scenario)
    algorithms, scheduler = algorithms_of(scenario, own.algorithms), estimating.scheduler()
    setting = Setting.of(scenario, scheduler.rules, algorithms)
    with no_garbage_collection():
        workload = load or own.load(scenario)
    record = partial(
        RunRecorder, scenario, "simulated", out, workload, keep_events=keep_events, in_full=in_full
    )
    began = time.monotonic()
    run = chosen(
        setting,
        scheduler,
        workload.jobs,
        engine=engine,
        keep_events=keep_events or (out is not None and in_full),
        discard_ended=not in_full and not why_whole(scenario, setting),
        watch=watch,
        around=estimating.around if estimating.gives else None,
    )
    if not isinstance(run, Simulation):
        with no_garbage_collection(), record(began=began) as recorder:
            try:
                if isinstance(run, CompiledRun) and (keep_events or in_full):
                    recorder.take_log(_with_steps(run, on_step))
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
    with record() as recorder:
        try:
            run.play([*recorder.observers, *observers])
        except KeyboardInterrupt:
            if in_full:
                recorder.finish("reference", state="interrupted")
            else:
                recorder.discard()
            raise
        except InputError:
            recorder.discard()
            raise
    guards = [*algorithms.values(), *run.world.behaviours.values()]
    warnings = complaints(run.scheduler, guards)
    return recorder.finish("reference", warnings=warnings)


def jobs_again(run: Run) -> JobTable:
    """Return the jobs of a run that was kept without them, by simulating its scenario again.

    Raises InputError if they are too many, or it does not come out the same.
    """
    summary = run.summary
    if summary.jobs.submitted > MOST_AGAIN:
        raise InputError(
            f"{run.path}: found {summary.jobs.submitted:,} jobs, which were not kept; "
            f"allowed where each has to be looked at: {MOST_AGAIN:,}"
        )
    engine: Engine = "fast" if summary.engine == "fast" else "auto"
    made = simulated_run(run.scenario, engine=engine).kept
    if _lasting(made.summary) != _lasting(summary):
        raise InputError(
            f"{run.path}: kept without its jobs, and its scenario gives other ones today: "
            "its files, the functions it names, or this version of the farm are not the same"
        )
    return made.jobs


def _lasting(summary: Summary) -> bytes:
    """Return what a run and its repetition have in common."""
    same = {"wall_time": 0.0, "engine": "", "warnings": (), "remarks": ()}
    return msgspec.json.encode(msgspec.structs.replace(summary, **same))


def figures_of_seeds(
    scenario: Scenario, seeds: Sequence[int], load: Several
) -> list[Figures] | None:
    """Return the figures of a scenario with each seed, played and measured together.

    ``load``: its jobs with these seeds. None: each has to be played alone.
    """
    estimating = Estimating(scenario, live=False)
    if estimating.gives:
        return None
    scheduler, info = estimating.scheduler(), run_info(scenario, "simulated", "fast")
    setting = Setting.of(scenario, scheduler.rules, algorithms_of(scenario))
    runs = play_seeds(setting, scheduler.estimator, load, seeds)
    if runs is None:
        return None
    records = runs.records.having(fair_share=info.fair_share)
    last_at = np.maximum(runs.last_at, info.until)
    return Counted(runs._replace(records=records, last_at=last_at), info).figures()


def _with_steps(run: CompiledRun, on_step: Callable[[str, float], None]) -> Iterator[bytes]:
    """Yield the event log of a run, saying how much of it is made."""
    for number, piece in enumerate(run.log()):
        yield piece
        on_step("writing events", (number + 1) / run.log_pieces)
