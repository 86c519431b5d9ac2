"""Compares a simulation under a slowdown table with jobs that really burn on this machine."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from farm.app.calibrating.measuring import LoadOfOthers, disturbed
from farm.app.calibrating.work_rates import rates_for
from farm.app.runs.live_run import live_run
from farm.app.runs.simulated_run import simulated_run
from farm.core.commands import EndJob
from farm.core.errors import InputError, RunError
from farm.live.settings import from_environment
from farm.results.figures.page import PageSection, PageTable, made_by, page
from farm.results.table.recorder import Recorder
from farm.scenario import Scenario
from farm.scenario.calibration_keys import Calibration
from farm.scenario.pools import Contention
from farm.workload import build_jobs
from workers.burn.burning_jobs import MODES, parse_rates
from workers.burn.limits import usable_cores
from workers.journal import read_journals

Responses = dict[str, float]

#: the law that a calibration has measured
TABLE = "measured table"
HEAD = ("mean response time", "mean s", "off by", "median job off by", "off by, as burnt")


class LawCheck(msgspec.Struct, frozen=True):
    """One law's simulation against the live runs; times in farm seconds."""

    law: str
    mean_response_time_s: float
    #: (simulated - live) / live
    mean_difference: float
    #: median over the jobs of |simulated - live| / live
    median_job_difference: float
    #: the mean difference if a second of work is what it really cost live; None: unknown
    mean_difference_as_burnt: float | None = None


class CalibrationCheck(msgspec.Struct, frozen=True):
    """The live runs, and the simulations of the same jobs under several laws."""

    scenario: str
    jobs: int
    live_mean_response_time_s: float
    live_mean_service_time_s: float
    mean_work_s: float
    #: mean response times of the single live runs
    runs_s: tuple[float, ...]
    #: processor seconds spent for a second of work in each of them; None: unknown
    burnt_s: tuple[float | None, ...]
    #: processors that others kept busy during each of them
    others: tuple[float, ...]
    #: units of work per second, by kernel, that all of them took for granted
    rates: dict[str, float]
    laws: tuple[LawCheck, ...]

    @property
    def burnt(self) -> float | None:
        """Processor seconds spent for a second of work, over all runs."""
        known = [one for one in self.burnt_s if one is not None]
        return statistics.fmean(known) if known else None


class _LiveRun(msgspec.Struct, frozen=True):
    """Each job's response and service time on the live farm."""

    jobs: dict[str, tuple[float, float]]
    burnt: float | None
    others: float


def _check_burning(scenario: Scenario) -> None:
    if any(job.mode not in MODES for job in build_jobs(scenario)):
        raise InputError(
            f"--scenario: {scenario.name}: found jobs of mode timed; allowed: "
            f"{', '.join(sorted(MODES))} (a comparison with the machine needs jobs that burn)"
        )
    if any(pool.provisioner is not None for pool in scenario.pools):
        raise InputError(f"--scenario: {scenario.name}: allowed: pools of a fixed size only")


def compare(
    scenario: Scenario,
    found: Calibration,
    *,
    runs: int = 1,
    begins: Callable[[int], None] = lambda _: None,
) -> CalibrationCheck:
    """Run the scenario's burning jobs live, simulate them under the table, compare.

    A job's live response time is its mean over the runs. Beside the table: the scenario's own law,
    no contention at all, the thesis's table, and threads against this machine's cores: as many as
    there are, and as many as they had when it was calibrated. The live runs burn with our own
    burner, as a calibration does, unless FARM_BURNER names another.

    Args:
        scenario: jobs that burn, and pools of a fixed size.
        found: slowdown by number of heavy jobs, measured cores, and units of work per second; those
            that it lacks are measured once, for all runs.
        runs: how many live runs.
        begins: called with the number of each live run, from 1, when it begins.

    Raises InputError for a scenario that cannot be compared with jobs that burn, RunError when a
    job failed live, KeyboardInterrupt when a live run was stopped.
    """
    _check_burning(scenario)
    rates = parse_rates(rates_for(scenario, found.rates))
    lives = []
    for number in range(1, runs + 1):
        begins(number)
        lives.append(_live(scenario, rates))
    live = {job: statistics.fmean(run.jobs[job][0] for run in lives) for job in lives[0].jobs}
    services = statistics.fmean(times[1] for run in lives for times in run.jobs.values())
    check = CalibrationCheck(
        scenario=scenario.name,
        jobs=len(live),
        live_mean_response_time_s=statistics.fmean(live.values()),
        live_mean_service_time_s=services,
        mean_work_s=statistics.fmean(job.service_time for job in build_jobs(scenario)),
        runs_s=tuple(statistics.fmean(one[0] for one in run.jobs.values()) for run in lives),
        burnt_s=tuple(run.burnt for run in lives),
        others=tuple(round(run.others, 2) for run in lives),
        rates=rates,
        laws=(),
    )
    laws = tuple(
        _against(law, played, live, check.burnt) for law, played in _laws(scenario, found).items()
    )
    return msgspec.structs.replace(check, laws=laws)


def _laws(scenario: Scenario, found: Calibration) -> dict[str, Scenario]:
    """Return the scenario under each law to try: its own one only where it is another."""
    laws: dict[str, object] = {TABLE: {"slowdown": found.slowdown}}
    if (cores := found.measured_cores) is not None:
        laws["threads against measured cores"] = {"threads": {"cores": cores}}
    laws["threads against cores"] = {"threads": {"cores": usable_cores()}}
    laws["the thesis's table"] = {"slowdown": "thesis"}
    tried = {name: _under(scenario, Contention.model_validate(law)) for name, law in laws.items()}
    tried["no contention"] = _under(scenario, None)
    if scenario.pools in [one.pools for one in tried.values()]:
        return tried
    return {"as the scenario says": scenario, **tried}


def _under(scenario: Scenario, contention: Contention | None) -> Scenario:
    pools = tuple(pool.model_copy(update={"contention": contention}) for pool in scenario.pools)
    return scenario.model_copy(update={"pools": pools})


def _against(law: str, scenario: Scenario, live: Responses, burnt: float | None) -> LawCheck:
    simulated = _simulated(scenario)
    mean, truth = statistics.fmean(simulated.values()), statistics.fmean(live.values())
    differences = [abs(simulated[job] - live[job]) / max(live[job], 1e-9) for job in live]
    as_burnt = None
    if burnt is not None:
        slowed = statistics.fmean(_simulated(_at_pace(scenario, 1 / burnt)).values())
        as_burnt = (slowed - truth) / truth
    median = statistics.median(differences)
    return LawCheck(law, mean, (mean - truth) / truth, median, as_burnt)


def _at_pace(scenario: Scenario, pace: float) -> Scenario:
    """Return the scenario with builders ``pace`` times as fast."""
    pools = tuple(pool.model_copy(update={"speed": pool.speed * pace}) for pool in scenario.pools)
    return scenario.model_copy(update={"pools": pools})


def _live(scenario: Scenario, rates: Mapping[str, float]) -> _LiveRun:
    recorder, others = Recorder(), LoadOfOthers()
    with tempfile.TemporaryDirectory(prefix="farm-burnt-") as journal:
        burner = from_environment().burner or "own"
        ended = live_run(
            scenario, observers=[recorder], known_rates=rates, burner=burner, journal=journal
        )
        busy = others.so_far()
        burnt = [entry for entry in read_journals(Path(journal)) if entry.what == "burnt"]
    if ended.kept.state == "interrupted":
        raise KeyboardInterrupt
    ends = recorder.ends
    for end in ends:
        if end.outcome != "succeeded" and not end.job.fails:
            raise RunError(f"job {end.job.id} {end.outcome} on the live farm: {end.reason}")
    work = sum(entry.work for entry in burnt)
    per_work = sum(entry.cpu for entry in burnt) / work if work > 0 else None
    return _LiveRun({end.job.id: _times(end) for end in ends}, per_work, busy)


def _times(end: EndJob) -> tuple[float, float]:
    began = end.started_at if end.started_at is not None else 0.0
    return end.finished_at - end.job.arrival(end.submitted_at), end.finished_at - began


def _simulated(scenario: Scenario) -> Responses:
    jobs = simulated_run(scenario).kept.jobs
    jobs = jobs.taken(jobs["outcome"] != "lost")
    return dict(zip(jobs["job_id"].tolist(), jobs["response_time_s"].tolist(), strict=True))


def rows(check: CalibrationCheck) -> list[tuple[str, ...]]:
    """Return a row for the live runs, and one for each law."""
    found: list[tuple[str, ...]] = [("live", f"{check.live_mean_response_time_s:.2f}", "", "", "")]
    for law in check.laws:
        burnt = law.mean_difference_as_burnt
        found.append(
            (
                f"simulated, {law.law}",
                f"{law.mean_response_time_s:.2f}",
                f"{law.mean_difference:+.1%}",
                f"{law.median_job_difference:.1%}",
                "" if burnt is None else f"{burnt:+.1%}",
            )
        )
    return found


def title(check: CalibrationCheck) -> str:
    """Return what was compared."""
    return f"{check.scenario}: {check.jobs} burning jobs"


def remarks(check: CalibrationCheck) -> list[str]:
    """Return what the live runs were like, and whether others disturbed them."""
    runs = ", ".join(
        f"{seconds:.2f}s (others kept {others:.2f} processors busy)"
        for seconds, others in zip(check.runs_s, check.others, strict=True)
    )
    work, took = check.mean_work_s, check.live_mean_service_time_s
    found = [f"live runs: {runs}; work of a job: {work:.2f}s on average, it took {took:.2f}s"]
    if check.burnt is not None:
        found.append(
            f"a second of work cost {check.burnt:.2f}s of processor time: not 1 where cores are "
            "slower in company, or were faster or slower when their rates were measured"
        )
    if warning := disturbed(max(check.others), "the live runs"):
        found.append(warning)
    return found


def answer(check: CalibrationCheck) -> str:
    """Return the comparison in one sentence."""
    nearest = min(check.laws, key=lambda law: abs(law.mean_difference))
    found = next((law for law in check.laws if law.law == TABLE), nearest)
    what = f"{found.law} is {found.mean_difference:+.1%} off the mean response time of live jobs"
    if nearest is found:
        return f"{what.capitalize()}: no other law comes nearer."
    return f"{what.capitalize()}; {nearest.law} comes nearer, {nearest.mean_difference:+.1%}."


def document(check: CalibrationCheck) -> str:
    """Return the comparison as a page."""
    words = [answer(check), *remarks(check)]
    section = PageSection("", words, tables=[PageTable("", HEAD, rows(check))])
    return page(title(check), [section], {"check": check}, under=made_by())
