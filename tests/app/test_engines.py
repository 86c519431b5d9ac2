"""The choice of engine changes nothing but the time that a simulation takes."""

from __future__ import annotations

import pytest

import farm
from farm.app.runs.own_parts import OwnParts
from farm.app.runs.simulated_run import simulated_run
from farm.core.errors import InputError
from farm.sim import engines
from farm.sim.fast.kernel import native
from farm.testing import small_scenario

pytestmark = pytest.mark.usefixtures("kernel")

LINUX = {"builders": 3, "slots": 2, "inter_job_time": "2s", "contention": {"slowdown": [1, 1, 1.4]}}
MATRICES = {
    "size": 4,
    "every": "20s",
    "service_time": {"exponential": {"mean": "15s"}},
    "heavy": {"longest": 0.3},
    "fails": 0.1,
    "attributes": {"team": {"a": 1, "b": 2}},
}
BUSY = small_scenario(
    {"name": "linux", **LINUX},
    {"matrices": MATRICES},
    name="busy",
    phases={"ramp_up": "1m", "run": "10m"},
    scheduling={"policy": "sjf-aging"},
)


TIMES = [
    {"when": "mon 23:00 - tue 00:05", "min": 2},
    {"when": "* * * * tue", "start": "12m", "max": 5, "instance_buffer": 3},
]
#: builders are requested, time out and are lost; arrivals of identical jobs
GROWING = small_scenario(
    [
        {
            "name": "linux",
            "boot_time": "20s",
            "idle_timeout": "1m",
            "losses": {"rate": "12/h", "at": ["4m"]},
            "provisioner": {"algorithm": "taskcluster", "max": 6},
        },
        {"name": "more", "provisioner": {"algorithm": "buildkite", "max": 2, "by_time": TIMES}},
        {
            "name": "runners",
            "slots": 3,
            "uses": 2,
            "boot_time": "40s",
            "shutdown_time": "1s",
            "provisioner": {"algorithm": "arc", "max": 3},
        },
        {  # more than one plan may start
            "name": "crowd",
            "platform": {"processor": "arm64"},
            "provisioner": {"algorithm": "fixed", "builders": 1100, "max": 1200},
        },
    ],
    {
        "platform": {"processor": "amd64"},
        "poisson": {"rate": 0.1},
        "service_time": {"exponential": {"mean": "40s"}},
    },
    name="growing",
    starts="mon 23:58",
    phases={"ramp_up": "1m", "run": "20m"},
)


def shortest(_job, estimate, _at, _serial):
    """Return the key of a user's policy."""
    return estimate


@pytest.mark.parametrize("scenario", [BUSY, GROWING], ids=lambda scenario: scenario["name"])
def test_both_engines_leave_the_same_run(scenario, tmp_path):
    """Protects log, jobs and summary of the compiled engine, byte for byte."""
    runs = {}
    for engine in ("reference", "fast"):
        result = farm.simulate(scenario, engine=engine, out=tmp_path / engine)
        assert result.summary["engine"] == engine
        rest = {k: v for k, v in result.summary.items() if k not in ("engine", "wall_time_s")}
        files = [(tmp_path / engine / name).read_bytes() for name in ("events.jsonl", "jobs.csv")]
        runs[engine] = (rest, files)
    assert runs["fast"] == runs["reference"]
    found = runs["fast"][0]
    assert found["jobs"]["failed"] > 0 or found["builders"]["lost"] > 2


def both(**how):
    """Return the run of each engine."""
    return [farm.simulate(BUSY, engine=engine, **how) for engine in ("fast", "reference")]


def test_both_engines_accept_an_empty_load_and_keep_no_events():
    """Protects a sweep over loads of the caller's, and the summary of a fast run without events."""
    fast, reference = both(jobs=[], keep_events=True)
    assert list(fast.events) == list(reference.events)
    assert fast.summary["jobs"]["submitted"] == 0
    fast, reference = both(keep_events=False)
    assert repr(list(fast.jobs)) == repr(list(reference.jobs))  # NaN is not itself
    assert fast.summary["builder_time_s"] == reference.summary["builder_time_s"]
    with pytest.raises(InputError, match="none were kept"):
        list(fast.events)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scheduling__fair_share": ["team"]}, "fair share"),
        ({"scheduling__balancer": "fastest"}, "the balancer fastest"),
        ({"scheduling__runtime_estimates": "boinc"}, "estimates that learn"),
        ({"scheduling__fail_fast": True}, "fail_fast, and jobs that fail"),
        ({"estimates__rules": ["launchpad"]}, "dispatch estimates"),
        ({"policy": shortest}, "a policy of the user's own"),
    ],
)
def test_what_is_not_covered_says_why(changes, why):
    """Protects the line that says why the fast engine cannot be used, and the summary's reason."""
    with pytest.raises(InputError, match=f"--engine fast: does not cover .*{why}.*allowed: auto"):
        farm.simulate(BUSY, engine="fast", **changes)
    summary = farm.simulate(BUSY, **changes).summary
    assert summary["engine"] == "reference"
    assert why in summary["not_compiled"]


def test_without_the_object_everything_works(monkeypatch):
    """Protects systems for which none is built, and clones in which none is built yet."""
    assert farm.simulate(BUSY).summary["engine"] == "fast", "whatever it covers"
    monkeypatch.setattr(native, "is_there", lambda: False)
    assert farm.simulate(BUSY).summary["engine"] == "reference"
    with pytest.raises(InputError, match=r"does not cover a farm without .* \(in a clone: make"):
        farm.simulate(BUSY, engine="fast")


def test_jobs_that_no_builder_will_run_are_given_up_by_both_engines():
    """Protects users from a slow run where a platform has no builder."""
    broken = {**BUSY, "pools": [{**BUSY["pools"][0], "failure_rate": 1}]}
    fast, reference = (
        farm.simulate(broken, engine=engine).summary for engine in ("fast", "reference")
    )
    assert fast["jobs"] == reference["jobs"]
    assert fast["jobs"]["cancelled"] == fast["jobs"]["submitted"]


def test_an_endless_load_is_not_awaited(monkeypatch):
    """Protects the memory from a load that only the end of the run cuts off."""
    monkeypatch.setattr(engines, "MOST_JOBS", 50)
    taken: list[float] = []

    def endless(rng):
        while True:
            taken.append(rng.expovariate(0.1) + (taken[-1] if taken else 0.0))
            yield farm.Job(id=f"j{len(taken)}", service_time=1.0, arrived_at=taken[-1])

    class LongEnoughError(Exception):
        pass

    def watch(event, _commands):
        if event.at > 3600.0:
            raise LongEnoughError

    unlimited = {key: value for key, value in BUSY.items() if key != "phases"}
    scenario = farm.load_scenario(unlimited, workload__0__count=1)
    with pytest.raises(LongEnoughError):
        simulated_run(scenario, own=OwnParts(jobs=endless), observers=[watch])
    assert taken[-2] < 4000.0


def test_an_interrupted_simulation_leaves_what_happened_until_then(tmp_path):
    """The run is marked and can be read; the interrupt is passed on to the caller."""
    seen = []

    def impatient(event, _):
        seen.append(event)
        if len(seen) == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulated_run(
            farm.load_scenario(BUSY),
            out=tmp_path / "run",
            observers=[impatient],
            engine="reference",
        )
    run = farm.open_run(tmp_path / "run")
    assert run.interrupted
    assert len(list(run.events)) >= 50
    assert 0 < run.summary["jobs"]["submitted"] < 120
