"""How far a simulation driven by a slowdown table is from jobs that really burn."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import msgspec

from farm.assembly import make_scheduler, pool_specs
from farm.cli.burning import rates_for
from farm.core.errors import InputError, RunError
from farm.driver import Observer
from farm.live.run import LiveOptions, run_live
from farm.live.world import LiveStatus
from farm.results.records import Recorder, arrival_of
from farm.scenario import Scenario
from farm.scenario.pools import Contention
from farm.sim.simulation import simulate
from farm.workload import batches, build_jobs
from workers.limits import usable_cores
from workers.stress import MODES

Responses = dict[str, float]


class LawCheck(msgspec.Struct, frozen=True):
    """One law's simulation against the live run; times in farm seconds."""

    law: str
    mean_response_time_s: float
    #: (simulated - live) / live
    mean_difference: float
    #: median over the jobs of |simulated - live| / live
    median_job_difference: float


class Check(msgspec.Struct, frozen=True):
    """The live run, and the simulations of the same jobs under several laws."""

    scenario: str
    jobs: int
    live_mean_response_time_s: float
    live_mean_service_time_s: float
    mean_work_s: float
    #: mean response times of the single live runs
    runs_s: tuple[float, ...]
    laws: tuple[LawCheck, ...]


def check_table(
    scenario: Scenario,
    table: tuple[float, ...],
    *,
    runs: int = 1,
    progress: Callable[[LiveStatus], None] | None = None,
) -> Check:
    """Run the scenario's burning jobs live, simulate them under the table, compare.

    A job's live response time is its mean over the runs. Beside the table: no contention at all,
    the thesis's table, and threads against this machine's cores.
    Raises InputError for a scenario without burning jobs or with pools of changing size, RunError
    when a job failed live.
    """
    jobs = list(build_jobs(scenario))
    if any(job.mode not in MODES for job in jobs):
        raise InputError(
            f"--compare: {scenario.name}: found jobs of mode timed; allowed: "
            f"{', '.join(sorted(MODES))} (a comparison with the machine needs jobs that burn)"
        )
    if any(pool.provisioner is not None for pool in scenario.pools):
        raise InputError(f"--compare: {scenario.name}: allowed: pools of a fixed size only")
    rates = rates_for(scenario)
    lives = [_live(scenario, rates, progress) for _ in range(runs)]
    live = {job: statistics.fmean(run[job][0] for run in lives) for job in lives[0]}
    services = statistics.fmean(run[job][1] for run in lives for job in run)
    laws: dict[str, dict[str, Any] | None] = {
        "measured table": {"slowdown": table},
        "threads against cores": {"threads": {"cores": usable_cores()}},
        "the thesis's table": {"slowdown": "thesis"},
        "no contention": None,
    }
    return Check(
        scenario=scenario.name,
        jobs=len(jobs),
        live_mean_response_time_s=statistics.fmean(live.values()),
        live_mean_service_time_s=services,
        mean_work_s=statistics.fmean(job.service_time for job in jobs),
        runs_s=tuple(statistics.fmean(one[0] for one in run.values()) for run in lives),
        laws=tuple(_against(law, _simulated(scenario, keys), live) for law, keys in laws.items()),
    )


def _against(law: str, simulated: Responses, live: Responses) -> LawCheck:
    mean, truth = statistics.fmean(simulated.values()), statistics.fmean(live.values())
    differences = [abs(simulated[job] - live[job]) / max(live[job], 1e-9) for job in live]
    return LawCheck(law, mean, (mean - truth) / truth, statistics.median(differences))


def _live(
    scenario: Scenario, rates: str, progress: Callable[[LiveStatus], None] | None
) -> dict[str, tuple[float, float]]:
    """Return each job's response and service time on the live farm."""
    recorder = Recorder()
    options = LiveOptions(speed=scenario.live.speed, hosts=scenario.live.hosts, work_rates=rates)
    load = batches(build_jobs(scenario))
    ended = run_live(
        make_scheduler(scenario),
        pool_specs(scenario),
        load,
        options,
        observe=recorder,
        progress=progress,
    )
    if ended.interrupted:
        raise KeyboardInterrupt
    told = recorder.records().ends
    for end in told:
        if end.outcome != "succeeded" and not end.job.fails:
            raise RunError(f"job {end.job.id} {end.outcome} on the live farm: {end.reason}")
    return {
        end.job.id: (
            end.finished_at - arrival_of(end.job, end.submitted_at),
            end.finished_at - (end.started_at if end.started_at is not None else 0.0),
        )
        for end in told
    }


def _simulated(scenario: Scenario, law: dict[str, Any] | None) -> Responses:
    contention = None if law is None else Contention.model_validate(law)
    pools = tuple(pool.model_copy(update={"contention": contention}) for pool in scenario.pools)
    recorder = Recorder()
    observers: list[Observer] = [recorder]
    simulate(scenario.model_copy(update={"pools": pools}), observers)
    return {
        end.job.id: end.finished_at - arrival_of(end.job, end.submitted_at)
        for end in recorder.records().ends
    }
