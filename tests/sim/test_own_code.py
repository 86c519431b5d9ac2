"""docs/how-to/taskcluster.md, run: users' analysis, load, provisioners and builders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import farm
from farm.core.errors import FarmError
from farm.testing import small_scenario

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files in a new folder, which is the working directory."""
    text = (ROOT / "docs/how-to/taskcluster.md").read_text("utf-8")
    for name, code in BLOCK.findall(text):
        (tmp_path / name).write_text(code, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine", "load", "provisioners", "builders", "loops"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_pages_load_and_provisioner(page: Path) -> None:
    """Bursts of twenty, on a pool with two to spare; the same seed gives the same jobs."""
    plain = {"pools__linux__behaviour": None}
    runs = farm.simulate(page / "mine.yaml", **plain), farm.simulate(page / "mine.yaml", **plain)
    first, again = (run.jobs for run in runs)
    assert {"0-0", "0-19", "1-0"} <= set(first["job_id"].tolist())
    assert first["service_time_s"].tolist() == again["service_time_s"].tolist()
    assert runs[0].summary["builders"]["max_running"] == 22
    by_hour = {"algorithm": "provisioners:by_hour", "max": 50}
    night = farm.simulate(page / "mine.yaml", pools__linux__provisioner=by_hour)
    assert night.summary["builders"]["max_running"] == 2
    steady = farm.simulate(page / "mine.yaml", workload__0__function="load:Steady")
    assert steady.summary["jobs"]["submitted"] == 600


def test_the_pages_builders(page: Path) -> None:
    """A class lets its builders warm up and leave; a function makes big jobs longer."""
    load = {"every": "1m", "count": 6, "service_time": 4, "kind": "big"}
    warming = farm.simulate(small_scenario({"behaviour": "builders:Warming"}, load))
    assert warming.jobs["service_time_s"].tolist() == [34.0, 4.0, 4.0, 4.0, 4.0, 34.0]
    assert warming.jobs["builder"].tolist() == ["p-1"] * 5 + ["p-2"]
    cached = farm.simulate(small_scenario({"behaviour": "builders:small_cache"}, load))
    assert cached.jobs["service_time_s"].tolist() == [8.0] * 6


ESTIMATE = {"algorithm": "taskcluster", "max": 10, "compatibility": "taskcluster"}


@pytest.mark.parametrize(
    "more",
    [
        {"provisioner": ESTIMATE},
        {"provisioner": ESTIMATE, "slots": 3},
        {"provisioner": ESTIMATE, "speed": 2.0},
        {"builders": 3, "slots": 2},
    ],
)
def test_the_pages_worker_is_the_built_in_one(page: Path, more: dict[str, object]) -> None:
    """The simulator's worker, written with its own calls, leaves the built-in builder's events."""
    pool = {"name": "w", "platform": {"processor": "amd64"}, "boot_time": "2s", **more}
    time = {"uniform": {"min": 1, "max": 9}}
    document = {
        "phases": {"ramp_up": "10s", "run": "5m", "ramp_down": "20s", "quiesce": True},
        "workload": [{"arrivals": {"every": 0.9, "start": 0.9, "service_time": time}}],
        "scheduling": {"compatibility": "taskcluster"},
    }
    built_in, own = (
        farm.simulate({**document, "pools": [pool | one]}, out=page / f"run-{number}")
        for number, one in enumerate(({"idle_timeout": "10s"}, {"behaviour": "loops:Worker"}))
    )
    assert own.event_store.events == built_in.event_store.events
    assert len(own.event_store.events) > 1000
    assert not own.summary["warnings"]
    assert [line["event"] for line in own.events].count("slot-cleaned") > 300


FORGETS = """def started(self):
  self.claim_work(2)
  self.set_timeout(lambda: self.boom(), 7)
 def received(self, attempt):
  pass"""


@pytest.mark.parametrize(
    ("code", "outcomes", "said"),
    [
        (FORGETS, "ffss", "1 times; the first was a timer: AttributeError"),
        ("def received(self, attempt):\n  raise KeyError(1)", "ffff", "4 times; the first was job"),
        ("def ended(self, attempt):\n  self.claim_work('x')", "ssss", "the first was end of job"),
        ("def started(self):\n  self.next_tick(self.started)", "ssss", "1,000 timers of less"),
        ("def __init__(self, spec):\n  self.claim_work()", "ssss", "the builder has not started"),
    ],
)
def test_a_broken_loop_is_one_warning(page: Path, code: str, outcomes: str, said: str) -> None:
    """Its jobs fail, and the builder continues as its pool says."""
    (page / "mine.py").write_text(
        f"from farm.emulation.own_loop import OwnLoop\n\nclass own(OwnLoop):\n {code}\n"
    )
    load = {"every": "5s", "count": 4, "service_time": "4s"}
    run = farm.simulate(small_scenario({"slots": 2, "behaviour": "mine:own"}, load))
    assert "".join(word[0] for word in run.jobs["outcome"].tolist()) == outcomes
    assert [said in warning for warning in run.summary["warnings"]] == [True]


def test_a_simulation_ends_where_no_slot_is_claimed(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers alone do not keep it alive forever, but a claim after many of them still counts."""
    monkeypatch.setattr("farm.sim.world.MOST_IN_VAIN", 100)
    (page / "mine.py").write_text(
        "from farm.emulation.own_loop import OwnLoop\n\n"
        "class Never(OwnLoop):\n"
        "    def started(self):\n        self.set_interval(int, 1e3)\n\n"
        "class Long(OwnLoop):\n"
        "    def started(self):\n        self.claim_work(), self.set_interval(int, 1)\n"
    )
    load = {"count": 2, "service_time": "4h"}
    for name, outcomes in (("Never", ["lost"] * 2), ("Long", ["succeeded"] * 2)):
        jobs = farm.simulate(small_scenario({"behaviour": f"mine:{name}"}, load)).jobs
        assert jobs["outcome"].tolist() == outcomes


SHORT = ["phases={run: 30s}", "pools.linux.boot_time=2s", "live.speed=60"]
BY_HOUR = "pools.linux.provisioner={algorithm: provisioners:by_hour, max: 50}"


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "jobs", "builders"),
    [
        # a builder for each job and two to spare: how many jobs overlap is the machine's affair
        pytest.param(["workload.0.function=load:Steady"], 3, {3, 4, 5}, id="classes"),
        # two builders by night
        pytest.param([BY_HOUR, "pools.linux.behaviour=loops:Worker"], 20, {2}, id="a loop"),
    ],
)
def test_the_page_on_a_live_farm(
    page: Path, changes: list[str], jobs: int, builders: set[int]
) -> None:
    """`farm run` accepts the user's load, provisioner and builders, functions and classes."""
    words = [sys.executable, "-m", "farm", "run", "mine.yaml", "--out", "run"]
    words += [word for change in SHORT + changes for word in ("--set", change)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = farm.open_run(page / "run")
    assert result.jobs["outcome"].tolist() == ["succeeded"] * jobs
    # uniform from 30 s on, or warming up; a start is noted when its report arrives, maybe late
    late = 0.05 * result.scenario.live.speed
    assert result.jobs["service_time_s"].min() >= 30.0 - late
    assert result.summary["builders"]["max_running"] in builders
    assert not result.summary["warnings"]


BUILDER = """from farm.emulation.behaviour import BuilderBehaviour

class own(BuilderBehaviour):
    def {}:
        return {}
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def own(job, builder):\n    return 3\n", "returned 3; allowed: the job"),
        ("def own(job, builder):\n    raise KeyError('x')\n", "mine:own failed 2 times"),
        ("def own(job, builder):\n    raise ValueError('\\ud800 half')\n", r"\ud800 half"),
        ("def own(job):\n    return job\n", "mine:own(job, builder) cannot be called so"),
        ("class own:\n    pass\n", "found the class mine:own; allowed: a function"),
        (BUILDER.format("rest_time(self, job)", -1), "rest_time: returned -1; allowed: seconds"),
    ],
)
def test_a_broken_builder_is_one_message(page: Path, code: str, said: str) -> None:
    """An error before the run, or a warning at its end."""
    (page / "mine.py").write_text(code)
    load = {"every": "1m", "count": 2, "service_time": "4s"}
    try:
        run = farm.simulate(small_scenario({"behaviour": "mine:own"}, load), out=page / "run")
        warnings = run.summary["warnings"]
    except FarmError as refused:
        warnings = [str(refused)]
    assert len(warnings) == 1
    assert warnings[0].startswith("pools.p.behaviour: ")
    assert said in warnings[0]


def test_a_leaving_builder_gets_no_more_jobs(page: Path) -> None:
    """Its free slots get none while it is busy or shuts down; no attempt is void."""
    (page / "mine.py").write_text(BUILDER.format("rest_time(self, job)", None))
    pool = {"slots": 3, "shutdown_time": "5s", "behaviour": "mine:own"}
    load = {"every": "3s", "count": 8, "service_time": "4s"}
    jobs = farm.simulate(small_scenario(pool, load, scheduling={"retries": 0})).jobs
    assert jobs["attempts"].tolist() == [1] * 8
    assert jobs["outcome"].tolist() == ["succeeded"] * 8
    spans = (jobs[name].tolist() for name in ("builder", "dispatched_at_s", "finished_at_s"))
    leaves_at: dict[str, float] = {}
    for builder, dispatched_at, finished_at in zip(*spans, strict=True):
        assert dispatched_at < leaves_at.setdefault(builder, finished_at)


@pytest.mark.parametrize("name", ["boot_time", "shutdown_time"])
def test_an_invalid_time_is_replaced_by_the_pools(page: Path, name: str) -> None:
    """Only a rest may be None; a boot or a shutdown without a time has the pool's, and warns."""
    (page / "mine.py").write_text(BUILDER.format(f"{name}(self)", None))
    times = {"boot_time": "7s", "shutdown_time": "5s", "idle_timeout": "1s"}
    load = {"every": "1m", "count": 2, "service_time": "4s"}
    given = small_scenario({**times, "behaviour": "mine:own"}, load)
    result = farm.simulate(given, keep_events=True)
    instants = {line["event"]: line["at_s"] for line in reversed([*result.events])}
    assert instants["builder-joined"] == 7.0
    assert instants["builder-retired"] - instants["builder-drained"] == 5.0
    said = f"{name}: returned None; allowed: seconds, 0 or more"
    assert [said in warning for warning in result.summary["warnings"]] == [True]


@pytest.mark.slow
def test_the_pages_analysis(page: Path) -> None:
    """The page's code runs unchanged."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "analysis.py"]
    done = subprocess.run(command, cwd=page, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n0\n"


TWO = """import farm

def load(dice):
    for at in ({}, 1.0):
        yield farm.Job(id={}, arrived_at=at, service_time=1.0)
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def load(dice):\n    raise KeyError('gone')\n", "mine:load failed: KeyError: 'gone'"),
        ("def load(dice):\n    yield 3\n", "number 1: found 3; allowed: a farm.Job"),
        ("def load():\n    yield 3\n", "mine:load(dice) cannot be called so"),
        (TWO.format(5.0, "str(at)"), "found arrived_at 1 after 5; allowed: in order"),
        (TWO.format(0.0, "'a'"), ": a: found this id twice; allowed: distinct ids"),
        ("other = 1\n", "has no attribute 'load'"),
    ],
)
def test_a_broken_generator_is_one_message(page: Path, code: str, said: str) -> None:
    """With the key of the source, and what is allowed."""
    (page / "mine.py").write_text(code)
    scenario = small_scenario(load={"generator": {"function": "mine:load"}})
    with pytest.raises(FarmError, match=r"workload\.0\.generator") as refused:
        farm.simulate(scenario)
    assert said in str(refused.value)


def test_several_sources_keep_apart(page: Path) -> None:
    """A generator's ids and matrices get a prefix beside other sources."""
    (page / "twins.py").write_text(
        "import farm\n\n\ndef twins(dice):\n"
        '    yield farm.Job(id="a", service_time=1, matrix="m")\n'
        '    yield farm.Job(id="b", service_time=1)\n'
    )
    loads = [
        {"generator": {"function": "load:bursts", "name": "burst"}},
        {"generator": {"function": "twins:twins"}},
        {"every": "20s", "count": 2, "service_time": "5s"},
    ]
    jobs = farm.simulate(small_scenario({"builders": 30}, loads, phases={"run": "1m"})).jobs
    names = jobs["job_id"].tolist()
    assert {name.partition("-")[0] for name in names} == {"burst", "twins", "amd64"}
    assert set(jobs["matrix"].tolist()) == {"", "twins-m"}
