"""Scheduling on a live farm: the same dispatch order as in the simulation, and a broken policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from farm.assembly import complaints, make_scheduler, pool_specs
from farm.cli.main import app
from farm.core.commands import EndJob, StartJob
from farm.core.events import JobsSubmitted
from farm.live.options import LiveOptions, Watchers
from farm.live.run import run_live
from farm.scenario.load import parse_scenario
from farm.sim.simulation import simulate
from farm.workload import batches, build_jobs

BUILD = {"size": 4, "service_time": {"uniform": {"min": "4s", "max": "20s"}}}


def two_users() -> Any:
    """Two users with three builds each: a build of four jobs every ten seconds, in turn."""
    workload = [
        {
            "matrices": {
                **BUILD,
                "name": f"{user}-{build}",
                "attributes": {"user": user, "build": f"{user}-{build}"},
                "start": f"{10 * build + start}s",
                "every": "0s",
                "count": 1,
            }
        }
        for start, user in enumerate(["ann", "bob"])
        for build in range(3)
    ]
    return parse_scenario(
        {
            "name": "two-users",
            # no two events happen within a second of each other, a tenth of one on a live farm:
            # with the machine to itself its order is certain
            "seed": 380,
            "pools": [{"name": "linux", "platform": {"processor": "amd64"}, "builders": 2}],
            "workload": workload,
            "scheduling": {
                "policy": "ljf-aging",
                "fair_share": ["user", "build"],
                "stickiness": ["15s", "30s"],
                "runtime_estimates": "oracle",
            },
        }
    )


class Ledger:
    """Which jobs came together, in which order, and in which order they were dispatched."""

    def __init__(self) -> None:
        self.arrivals: list[list[str]] = []
        self.starts: list[str] = []
        self.ends: list[EndJob] = []

    def __call__(self, event: Any, commands: Any) -> None:
        if isinstance(event, JobsSubmitted):
            self.arrivals.append([job.id for job in event.jobs])
        self.starts += [c.job.id for c in commands if isinstance(c, StartJob)]
        self.ends += [c for c in commands if isinstance(c, EndJob)]


@pytest.mark.live
@pytest.mark.timed
def test_two_users_with_three_builds_each_are_dispatched_as_in_the_simulation() -> None:
    """Stickiness and ageing on: the same arrival order gives the same dispatch order."""
    scenario, simulated, live = two_users(), Ledger(), Ledger()
    simulate(scenario, [simulated])
    run_live(
        make_scheduler(scenario),
        pool_specs(scenario),
        batches(build_jobs(scenario)),
        LiveOptions(speed=10.0),
        Watchers(observe=live),
    )
    assert live.arrivals == simulated.arrivals
    assert len(simulated.starts) == 24
    assert live.starts == simulated.starts
    # and the order is neither that of one queue nor that of the users' turns alone
    plain = Ledger()
    words = {"fair_share": (), "stickiness": ()}
    scheduling = scenario.scheduling.model_copy(update=words)
    simulate(scenario.model_copy(update={"scheduling": scheduling}), [plain])
    assert plain.starts != simulated.starts


BROKEN = '''"""Policies of a user."""

def key(job, estimate, at, serial):
    """Work for all but one job."""
    if job.id.endswith("3"):
        raise KeyError("weight")
    return -serial

def nan(job, estimate, at, serial):
    return float("nan")

def nothing(job, estimate, at, serial):
    return None

def text(job, estimate, at, serial):
    return job.id if serial % 2 else 1.0

def rank(builder):
    return 1 / 0

def short(job):
    return 0
'''
FARM = """
name: broken
pools: [{name: p, builders: 1}]
workload: [{matrices: {name: m, every: 0s, count: 1, size: 8, service_time: {constant: 5s}}}]
live: {speed: 50}
"""


@pytest.fixture
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with a farm and a module of broken policies, unique to the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"policies_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(BROKEN)
    (tmp_path / "farm.yaml").write_text(FARM)
    return module


@pytest.mark.parametrize("world", ["simulate", pytest.param("run", marks=pytest.mark.live)])
def test_an_error_in_a_users_policy_is_one_warning(folder: str, world: str) -> None:
    """The job goes first, the others as the policy says; the run ends with exit code 1."""
    result = CliRunner().invoke(
        app,
        [world, "farm.yaml", "--set", f"scheduling.policy={folder}:key", "--quiet", "--out", "out"],
    )
    assert result.exit_code == 1, result.output
    assert result.output.count("warning: ") == 1
    assert f"scheduling.policy: {folder}:key failed for 1 of 8 jobs" in result.output
    assert "job m-0001-003: KeyError: 'weight'" in result.output
    assert "Traceback" not in result.output
    rows = Path("out/jobs.csv").read_text().splitlines()
    order = [row.split(",")[0] for row in rows][1:]
    assert order == ["m-0001-003", *(f"m-0001-00{n}" for n in (8, 7, 6, 5, 4, 2, 1))]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("nan", "returned nan; NaN cannot be ordered"),
        ("nothing", "returned None; a key is a number or a tuple of numbers"),
        ("text", "returned 'm-0001-001'; a key is a number or a tuple of numbers"),
    ],
)
def test_keys_that_cannot_be_compared(folder: str, function: str, said: str) -> None:
    """An invalid key is reported once, whatever it is."""
    sets = ["--set", f"scheduling.policy={folder}:{function}"]
    result = CliRunner().invoke(app, ["simulate", "farm.yaml", "--quiet", *sets])
    assert result.exit_code == 1, result.output
    assert result.output.count("warning: ") == 1
    assert said in result.output


def test_a_broken_ranking_and_wrong_arguments(folder: str) -> None:
    """A user's balancer is guarded too; a function of other arguments is refused at once."""
    call = CliRunner().invoke
    sets = ["--set", f"scheduling.balancer={folder}:rank"]
    result = call(app, ["simulate", "farm.yaml", "--quiet", *sets])
    assert result.exit_code == 1
    assert "scheduling.balancer" in result.output
    assert "ZeroDivisionError" in result.output
    scenario = parse_scenario(
        {
            "pools": [{"name": "p", "builders": 1}],
            "workload": [{"arrivals": {"every": 1, "count": 1, "service_time": {"constant": 1}}}],
            "scheduling": {"policy": f"{folder}:short"},
        }
    )
    with pytest.raises(Exception, match="cannot be called so: too many positional arguments"):
        make_scheduler(scenario)


def test_no_warnings_about_builtin_policies() -> None:
    """The project's own policies are not guarded and never warn."""
    assert complaints(make_scheduler(two_users())) == []
