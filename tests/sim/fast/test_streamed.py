"""A load that is read as it goes, its jobs let go as they end: the same summary, in less memory."""

from __future__ import annotations

from array import array
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from farm.app.recorded.played_again import played_again
from farm.app.recorded.result import Result, open_run
from farm.app.runs.estimating import Estimating
from farm.app.runs.simulated_run import simulated_run
from farm.assembly import run_info
from farm.core.errors import InputError
from farm.results.descriptive_statistics import Spread
from farm.results.summary.costs import CostPart
from farm.results.summary.histogram import RELATIVE_ERROR
from farm.results.summary.objectives import parse_objective, value_of, value_of_tallied
from farm.results.summary.summary import Summary, summarise
from farm.results.summary.summary_table import summary_html
from farm.results.summary.tally import MAX_EXACT, KeptTimes, Tallied, Tally
from farm.results.table.recorder import RunRecords
from farm.scenario import Scenario, parse_scenario
from farm.sim.engines import StreamedRun, play
from farm.sim.fast import streamed as module
from farm.sim.fast.coverage import why_not, why_whole
from farm.sim.fast.streamed import Reader, play_streamed
from farm.sim.setting import Setting
from farm.workload import build_jobs
from farm.workload.blocks import Block, JobColumns
from provisioner.from_scenario import algorithms_of
from tests.fixtures.examples import examples

pytestmark = pytest.mark.usefixtures("kernel")

times = st.sampled_from(["1s", "0s", {"exponential": {"mean": "3s"}}])
sizes = st.sampled_from(
    [
        {"builders": 1},
        {"builders": 2},
        {"builders": 1, "uses": 2},
        {"provisioner": {"algorithm": "manual", "capacity": 2, "max": 3}},
        {"provisioner": {"algorithm": "taskcluster", "max": 2}, "idle_timeout": "4s"},
    ]
)


def mmc(jobs: int, **changes: Any) -> Scenario:
    """Return an M/M/4 queue at load 0.8."""
    source = {"poisson": {"rate": "3.2/s"}, "count": jobs}
    source |= {"service_time": {"exponential": {"mean": "1s"}}}
    pool = {"name": "one", "platform": {"processor": "x86"}, "builders": 4}
    document = {"name": "mmc", "pools": [pool], "workload": [{"arrivals": source}]}
    return parse_scenario(document | changes)


@st.composite
def sources(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a source whose jobs come one by one, or several at an instant."""
    made: dict[str, Any] = {
        **draw(st.sampled_from([{"poisson": {"rate": "2/s"}}, {"every": "0.5s"}, {"every": "0s"}])),
        "count": draw(st.integers(1, 60)),
        "start": draw(st.sampled_from(["0s", "2s"])),
        "service_time": draw(times),
        "platform": draw(st.sampled_from([{"processor": "x86"}, {"processor": "arm"}])),
    }
    more = {
        "kind": {"unit": 2, "lint": 1},
        "level": {"0": 3, "1": 1},
        "attributes": {"team": {"web": 2, "core": 1}},
        "fails": {"probability": 0.3},
        "heavy": {"probability": 0.5},
    }
    return made | {name: value for name, value in more.items() if draw(st.booleans())}


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a scenario whose jobs need not be held."""
    contention = {"linear": {"threshold": 1, "slope": 0.4}}
    pools = [
        {
            "name": name,
            "platform": {"processors": processors},
            "slots": draw(st.integers(1, 2)),
            "speed": draw(st.sampled_from([1.0, 0.7])),
            "inter_job_time": draw(st.sampled_from(["0s", "1s"])),
            "contention": draw(st.sampled_from([None, contention])),
            **draw(sizes),
        }
        for name, processors in (("a", ["x86"]), ("b", ["arm"]), ("c", ["x86", "arm"]))
    ]
    return parse_scenario(
        {
            "name": "drawn",
            "seed": draw(st.integers(1, 9)),
            "pools": pools,
            "workload": [
                {"arrivals": one} for one in draw(st.lists(sources(), min_size=1, max_size=2))
            ],
            "scheduling": {"policy": draw(st.sampled_from(["fifo", "sjf", "ljf", "score"]))},
        }
    )


def streamed(scenario: Scenario, least: int, max_exact: int = MAX_EXACT) -> RunRecords | None:
    """Play a scenario, reading some ``least`` jobs at a time; the times of some are kept."""
    scheduler = Estimating(scenario, live=False, again=played_again).scheduler()
    setting = Setting.of(scenario, scheduler.rules, algorithms_of(scenario))
    assert not why_not(setting, scheduler.estimator)
    assert not why_whole(scenario, setting)
    jobs = build_jobs(scenario)
    assert isinstance(jobs, JobColumns)
    tally = Tally((), [pool.name for pool in setting.pools], max_exact)
    records = play_streamed(jobs.blocks(), scheduler.estimator, setting, tally, least=least)
    return None if records is None else StreamedRun(records).records()


def whole(scenario: Scenario) -> RunRecords:
    """Play a scenario with all of its jobs held."""
    scheduler = Estimating(scenario, live=False, again=played_again).scheduler()
    setting = Setting.of(scenario, scheduler.rules, algorithms_of(scenario))
    return play(setting, scheduler.estimator, build_jobs(scenario), engine="fast")


def summed_up(scenario: Scenario, records: RunRecords) -> Summary:
    """Return the summary of a run."""
    return summarise(records, run_info(scenario, "simulated", "fast"), 0.0)


@examples(60)
@given(scenarios(), st.integers(1, 30))
def test_the_same_summary(scenario, least):
    """Protects equality to the last digit, whatever the farm, and wherever the pieces end."""
    records = streamed(scenario, least)
    if records is None:  # jobs have to be given up, which a tally has no place for
        assert summed_up(scenario, whole(scenario)).jobs.cancelled
        return
    assert summed_up(scenario, records) == summed_up(scenario, whole(scenario))


def test_many_pieces_of_one_queue():
    """Protects the order of sums and of percentiles over pieces, where most jobs wait."""
    scenario = mmc(3000, seed=3)
    records = streamed(scenario, 50)
    assert isinstance(records, Tallied)
    assert records.tally.count == 3000
    assert summed_up(scenario, records) == summed_up(scenario, whole(scenario))


def exact_figures(summary: Summary) -> Summary:
    """Return a summary without what differs where percentiles are near, and with rounded means."""

    def without(spread: Spread) -> Spread:
        mean, std = (float(f"{one or 0.0:.9g}") for one in (spread.mean, spread.std))
        return Spread(spread.count, mean, std, max=spread.max)

    def of_parts(parts: dict[str, CostPart]) -> dict[str, CostPart]:
        return {
            name: replace(
                part,
                waiting_time=without(part.waiting_time),
                response_time=without(part.response_time),
            )
            for name, part in parts.items()
        }

    return replace(
        summary,
        waiting_time=without(summary.waiting_time),
        response_time=without(summary.response_time),
        stretch=without(summary.stretch),
        pools=of_parts(summary.pools),
        platforms=of_parts(summary.platforms),
        invocations=of_parts(summary.invocations),
        percentile_error=UNSET,
        remarks=(),
    )


def spreads_in(summary: Summary) -> list[Spread]:
    """Return all spreads of a summary that are counted in histograms."""
    parts = [*summary.pools.values(), *summary.platforms.values(), *summary.invocations.values()]
    times = [spread for part in parts for spread in (part.waiting_time, part.response_time)]
    return [summary.waiting_time, summary.response_time, summary.stretch, *times]


@examples(40)
@given(scenarios(), st.integers(1, 30), st.integers(0, 60))
def test_near_percentiles_of_more_jobs_than_are_kept(scenario, least, max_exact):
    """Protects what is switched over in the middle: other figures stay, percentiles are near."""
    records = streamed(scenario, least, max_exact)
    if records is None:
        return
    assert isinstance(records, Tallied)
    found, exact = summed_up(scenario, records), summed_up(scenario, whole(scenario))
    if exact.jobs.submitted <= max_exact:
        assert found == exact
        return
    assert found.percentile_error == RELATIVE_ERROR
    assert exact_figures(found) == exact_figures(exact)
    for near, spread in zip(spreads_in(found), spreads_in(exact), strict=True):
        for name in ("p50", "p95", "p99"):
            value = getattr(spread, name)
            if value is not None:
                assert abs(getattr(near, name) - value) <= 0.001 * value


def test_a_summary_says_that_its_percentiles_are_near(monkeypatch):
    """Protects readers of the table, the remarks and summary.json from taking them as exact."""
    scenario = mmc(2000)
    monkeypatch.setattr("farm.sim.engines.MOST_JOBS", 500)
    exact = Result(*simulated_run(scenario, in_full=False))
    assert "percentile_error" not in exact.summary
    monkeypatch.setattr("farm.sim.fast.door.Tally", partial(Tally, max_exact=1999))
    near = Result(*simulated_run(scenario, in_full=False))
    assert near.summary["percentile_error"] == RELATIVE_ERROR
    [remark] = near.summary["remarks"]
    assert remark == (
        "2,000 jobs are too many to keep their times: p50, p95 and p99 come from a histogram, and "
        "are within 0.1 % of the exact ones"
    )
    assert "≈ p95" in summary_html("", near.kept.summary)
    assert "≈ p95" not in summary_html("", exact.kept.summary)


def test_checks_of_a_streamed_run_have_any_percentile():
    """A run of minutes must not end with a check that it could not be asked."""
    scenario = mmc(2000)
    records = whole(scenario)
    summary = summed_up(scenario, records)
    checks = (
        "p99.9(waiting_time) < 1 and mean(one.waiting_time) < 1 and max(stretch) < 1 "
        "and p10(x86/virtual.response_time) < 1 and p50(none/native.waiting_time) < 1"
    )
    for term in parse_objective(checks):
        exact = value_of(records, summary, term, scenario.pools)
        for max_exact, error in ((MAX_EXACT, 1e-12), (1, RELATIVE_ERROR)):
            tallied = streamed(scenario, 100, max_exact)
            assert isinstance(tallied, Tallied)
            value = value_of_tallied(tallied, term, scenario.pools)
            assert value == (None if exact is None else pytest.approx(exact, rel=error))
    assert exact is None
    [of_matrices] = parse_objective("p95(matrix_response_time) < 1")
    with pytest.raises(InputError, match="too many to be held"):
        value_of_tallied(tallied, of_matrices, scenario.pools)


def test_only_open_jobs_are_held(monkeypatch):
    """Protects the bound of memory: 28 bytes a job, and records of open jobs and of a piece."""
    held = []

    def load_of(*arguments):
        load = made(*arguments)
        held.append(len(load.columns))
        return load

    made = module.load_of
    monkeypatch.setattr(module, "load_of", load_of)
    records = streamed(mmc(20_000), 100)
    assert isinstance(records, Tallied)
    times = records.tally.times
    assert isinstance(times, KeptTimes)
    columns = [one for one in vars(times).values() if isinstance(one, array)]
    assert sum(one.itemsize for one in columns) == 28
    assert max(held) < 400
    assert len(records.jobs) == 0


def test_a_command_streams_what_is_too_long_to_be_held(monkeypatch, tmp_path):
    """Protects that such a run is played by the loop, and kept as scenario and summary."""
    scenario = mmc(2000)
    before = Result(*simulated_run(scenario, engine="fast")).summary
    monkeypatch.setattr("farm.sim.engines.MOST_JOBS", 500)
    told: list[int] = []
    run = simulated_run(
        scenario,
        out=tmp_path / "run",
        in_full=False,
        watch=lambda _, ended, __: told.append(ended),
    )
    result = Result(*run)
    after = result.summary
    assert after | {"wall_time_s": 0.0} == before | {"wall_time_s": 0.0}
    assert told == sorted(told)
    assert result.answer
    with pytest.raises(InputError, match="too many to be held"):
        len(result.jobs)
    assert len(open_run(tmp_path / "run").jobs) == 2000


def test_what_cannot_be_streamed_is_held(monkeypatch):
    """Protects the present way for scenarios whose jobs are looked at later, or all at once."""
    monkeypatch.setattr("farm.sim.engines.MOST_JOBS", 500)
    phases = {"ramp_up": "10s", "run": "100s", "ramp_down": "10s"}
    run = simulated_run(mmc(2000, phases=phases), in_full=False, engine="fast")
    found = Result(*run)
    assert found.summary["run_phase_s"] == (10.0, 110.0)
    assert len(found.jobs) > 300


@given(st.lists(st.sampled_from([0.0, 0.0, 1.0]), min_size=1, max_size=40), st.integers(1, 9))
def test_jobs_of_one_instant_are_read_together(steps, least):
    """Protects batches, which are submitted at once: none is in two pieces."""
    arrived = np.cumsum(steps)
    blocks = (Block({"arrived_at": one}) for one in np.array_split(arrived, 5) if len(one))
    reader, pieces = Reader(blocks), []
    while not reader.over:
        pieces.append(reader.read(least).array("arrived_at"))
    assert np.concatenate(pieces).tolist() == arrived.tolist()
    assert all(len(one) >= least for one in pieces[:-1])
    assert all(one[-1] < following[0] for one, following in pairwise(pieces))
