"""A load that is read as it goes, its jobs let go as they end: the same summary, in less memory."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.app.recorded.result import open_run
from farm.app.runs.estimates import Estimating
from farm.app.runs.simulated_run import simulated_run
from farm.assembly import run_info
from farm.core.errors import InputError
from farm.results.summary.summary import Summary, summarise
from farm.results.summary.tally import Tallied, Tally
from farm.results.table.records import RunRecords
from farm.scenario import Scenario, parse_scenario
from farm.sim.engines import StreamedRun, play
from farm.sim.fast import streamed as module
from farm.sim.fast.coverage import why_not, why_whole
from farm.sim.fast.streamed import Reader, play_streamed
from farm.sim.setting import Setting
from farm.workload import build_jobs
from farm.workload.columns import Block, JobColumns
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


def streamed(scenario: Scenario, least: int) -> RunRecords | None:
    """Play a scenario, reading some ``least`` jobs at a time."""
    scheduler = Estimating(scenario, live=False).scheduler()
    setting = Setting.of(scenario, scheduler.rules, algorithms_of(scenario))
    assert not why_not(setting, scheduler.estimator)
    assert not why_whole(scenario, setting)
    jobs = build_jobs(scenario)
    assert isinstance(jobs, JobColumns)
    tally = Tally((), [pool.name for pool in setting.pools])
    records = play_streamed(jobs.blocks(), scheduler.estimator, setting, tally, least=least)
    return None if records is None else StreamedRun(records).records()


def whole(scenario: Scenario) -> RunRecords:
    """Play a scenario with all of its jobs held."""
    scheduler = Estimating(scenario, live=False).scheduler()
    setting = Setting.of(scenario, scheduler.rules, algorithms_of(scenario))
    return play(setting, scheduler, build_jobs(scenario), engine="fast")


def summed_up(scenario: Scenario, records: RunRecords) -> Summary:
    """Return the summary of a run."""
    return summarise(records, run_info(scenario, "simulated", "fast"), 0.0)


@examples(60)
@given(scenarios(), st.integers(1, 30))
def test_the_same_summary(scenario, least):
    """Protects equality to the last digit, whatever the farm, and wherever the pieces end."""
    records = streamed(scenario, least)
    if records is None:  # jobs have to be given up, which only the reference covers
        with pytest.raises(InputError, match="given up"):
            whole(scenario)
        return
    assert summed_up(scenario, records) == summed_up(scenario, whole(scenario))


def test_many_pieces_of_one_queue():
    """Protects the order of sums and of percentiles over pieces, where most jobs wait."""
    scenario = mmc(3000, seed=3)
    records = streamed(scenario, 50)
    assert isinstance(records, Tallied)
    assert records.tally.count == 3000
    assert summed_up(scenario, records) == summed_up(scenario, whole(scenario))


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
    columns = [one for one in vars(records.tally).values() if isinstance(one, array)]
    assert sum(one.itemsize for one in columns) == 28
    assert max(held) < 400
    assert len(records.jobs) == 0


def test_a_command_streams_what_is_too_long_to_be_held(monkeypatch, tmp_path):
    """Protects that such a run is played by the loop, and kept as scenario and summary."""
    scenario = mmc(2000)
    before = simulated_run(scenario, engine="fast").summary
    monkeypatch.setattr("farm.sim.engines.MOST_JOBS", 500)
    told: list[int] = []
    result = simulated_run(
        scenario,
        out=tmp_path / "run",
        in_full=False,
        watch=lambda _, ended, __: told.append(ended),
    )
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
    found = simulated_run(mmc(2000, phases=phases), in_full=False, engine="fast")
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
