"""``import farm``: runs in Python, with the caller's values and functions."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import farm
from farm.results.table.job_table import COLUMNS
from farm.results.table.jobs_csv import read_jobs
from farm.testing import small_scenario

LOAD = {"every": "10s", "count": 30, "service_time": {"exponential": {"mean": "25s"}}}
LITTLE = small_scenario({"builders": 2}, LOAD, name="little")
ELASTIC = small_scenario({"provisioner": {"algorithm": "manual", "min": 0, "max": 9}})["pools"]


def plain(result: farm.Result) -> dict[str, Any]:
    """Return a summary without the values that depend on the machine's speed."""
    return {key: value for key, value in result.summary.items() if key != "wall_time_s"}


def test_the_table_is_jobs_csv(tmp_path: Path):
    """The same columns, the same numbers; an empty cell of a number is NaN."""
    result = farm.simulate(LITTLE)
    path = result.save(tmp_path / "run") / "jobs.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert result.jobs.columns == COLUMNS == tuple(rows[0])
    assert len(result.jobs) == len(read_jobs(path)) == len(rows) == 30
    for name in COLUMNS:
        found = result.jobs[name]
        assert ["" if one != one else str(one) for one in found.tolist()] == [r[name] for r in rows]
        np.testing.assert_array_equal(read_jobs(path)[name], found, strict=True)
    assert np.isnan(result.jobs["estimated_dispatch_at_s"]).all()
    assert next(iter(result.jobs))["job_id"] == rows[0]["job_id"]


def test_a_kept_run_is_what_it_was(tmp_path: Path):
    """Saved and opened again, or written at once: the same summary, jobs and events."""
    result = farm.simulate(LITTLE)
    result.save(tmp_path / "saved")
    written = farm.simulate(LITTLE, out=tmp_path / "written")
    assert written.path == tmp_path / "written"
    copied = farm.open_run(written.save(tmp_path / "copied"))
    for run in (farm.open_run(tmp_path / "saved"), written, copied):
        assert plain(run) == plain(result)
        assert list(run.jobs["job_id"]) == list(result.jobs["job_id"])
        assert list(run.events) == list(result.events)
        assert run.scenario == result.scenario
    with pytest.raises(farm.InputError, match="exists already"):
        result.save(tmp_path / "saved")


def test_seeds():
    """One seed makes a result, several make results; NumPy's integers are seeds as well."""
    one = farm.simulate(LITTLE, seeds=np.int64(3))
    several = farm.simulate(LITTLE, seeds=np.arange(2, 4))
    assert isinstance(one, farm.Result)
    assert isinstance(several, farm.Results)
    assert plain(several[1]) == plain(one)
    assert plain(several[0]) != plain(one)
    assert several.jobs["seed"].tolist() == [2] * 30 + [3] * 30
    assert [found["seed"] for found in several.summaries] == [2, 3]
    with pytest.raises(farm.InputError, match=r"seeds: found 1\.5"):
        farm.simulate(LITTLE, seeds=1.5)  # type: ignore[call-overload]


def test_the_events_of_several_runs_are_not_kept():
    """A hundred seeds do not fill the memory, unless events are asked for."""
    first = farm.simulate(LITTLE, seeds=[1])[0]
    with pytest.raises(farm.InputError, match=r"keep_events=True"):
        list(first.events)
    kept = farm.simulate(LITTLE, seeds=[1], keep_events=True)[0]
    assert len(list(kept.events)) > 30


@pytest.mark.parametrize(
    "overrides",
    [
        {"scheduling__policy": "ljf", "pools__p__builders": np.int32(3)},
        {"scheduling.policy": "ljf", "pools.0.builders": "+1"},
        {"policy": "ljf", "pools": [{**LITTLE["pools"][0], "builders": 3}]},
    ],
)
def test_overrides(overrides: dict[str, Any]):
    """Keys with dots or underscores, whole values, steps: overridden, and the rest stays."""
    found = farm.simulate(LITTLE, **overrides)
    assert found.scenario.scheduling.policy == "ljf"
    assert found.scenario.pools[0].builders == 3
    assert found.summary["name"] == "little"
    again = farm.load_scenario(found.scenario, seed=np.uint8(7))
    assert (again.seed, again.pools) == (7, found.scenario.pools)
    assert "seed" not in LITTLE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"polcy": "sjf"}, "did you mean policy|polcy"),
        ({"policy": lambda _: 0}, "scheduling.policy"),
        ({"pools__q__builders": 3}, "pools.q.builders: found q"),
        ({"algorithms": {"p": "keda"}}, "max"),
        ({"algorithms": {"p": lambda _: 1}}, "provisioner section"),
        ({"jobs": ["x"]}, "allowed: a farm.Job"),
        ({"jobs": [farm.Job(id="a", service_time=-1.0)]}, "service_time: found -1.0; allowed"),
        ({"jobs": [farm.Job(id="a", service_time=1.0, platform=farm.Platform("arm"))]}, "arm"),
        ({"jobs": 5}, "jobs: found 5; allowed: farm.Jobs"),
        ({"out": "x", "seeds": [1]}, "several seeds"),
        ({"seeds": []}, "seeds: found none"),
        ({"engine": "quik"}, "engine: found 'quik'; .*allowed: auto, reference, fast"),
        ({"estimator": 5}, "estimator: found 5; allowed: a name"),
        ({"scheduling__max_builders_lost": 10**20}, "max_builders_lost: found 1000"),
    ],
)
def test_mistakes(arguments: dict[str, Any], message: str):
    """There is one error type, with a message that says what was wrong."""
    with pytest.raises(farm.InputError, match=message):
        farm.simulate(LITTLE, **arguments)


def test_an_unknown_example():
    """The message names the existing ones."""
    with pytest.raises(farm.InputError, match=r"did you mean quickstart.*mm1"):
        farm.simulate("quickstrat")
    with pytest.raises(farm.InputError, match=r"scenario: found 3; allowed: a file"):
        farm.simulate(3)  # type: ignore[call-overload]


def test_a_policy_of_the_caller():
    """The same key gives the same run as the policy of that name; the summary names its source."""
    named = farm.simulate(LITTLE, policy="sjf", pools__p__builders=1)

    def shortest(job: farm.Job, estimate: float, at: float, serial: int) -> float:
        return estimate

    own = farm.simulate(LITTLE, policy=shortest, pools__p__builders=1)
    assert own.jobs["job_id"].tolist() == named.jobs["job_id"].tolist()
    assert own.summary["policy"] == f"{__name__}:{shortest.__qualname__}"
    by_key = farm.simulate(LITTLE, scheduling__policy=shortest, pools__p__builders=1)
    assert by_key.summary["policy"] == own.summary["policy"]


def test_a_balancer_of_the_caller():
    """It ranks builders, the smallest first."""
    found = farm.simulate(
        LITTLE, balancer=lambda state: -state.builder.index, pools__p__builders=40
    )
    assert "p-40" in found.jobs["builder"]
    assert "p-1" not in found.jobs["builder"]


def test_an_estimator_of_the_caller():
    """A function from a job to seconds, or an object that learns."""
    longest = farm.simulate(LITTLE, policy="ljf", pools__p__builders=1)
    negated = farm.simulate(
        LITTLE, policy="sjf", pools__p__builders=1, estimator=lambda job: 1e6 - job.service_time
    )
    assert negated.jobs["job_id"].tolist() == longest.jobs["job_id"].tolist()

    class Same:
        name, learns = "same", True

        def __init__(self) -> None:
            self.seen = 0

        def estimate(self, *_: Any) -> float:
            return 10.0

        def learn(self, *_: Any) -> None:
            self.seen += 1

        def remaining(self, *_: Any) -> float:
            return 1.0

        def dump(self) -> dict[str, Any]:
            return {}

        def load(self, state: dict[str, Any]) -> None: ...

    same = Same()
    farm.simulate(LITTLE, estimator=same)
    assert same.seen == 30


def test_algorithms_of_the_caller():
    """A pool is sized by a function, a class, an algorithm or another name."""
    from provisioner.algorithms.fixed import Fixed

    def three(snapshot: farm.PoolSnapshot) -> float:
        return 2.5 if snapshot.pool == "p" else 0

    class Four(Fixed, frozen=True, kw_only=True):
        builders: int = 4

    given = (three, 3), (Four, 4), (Fixed(builders=5), 5), ("taskcluster", None)
    for algorithm, size in given:
        found = farm.simulate(LITTLE, pools=ELASTIC, algorithms={"p": algorithm})
        assert found.summary["jobs"]["succeeded"] == 30
        if size is not None:
            assert found.summary["builders"]["max_running"] == size


def test_jobs_of_the_caller():
    """A list, or a function of a random generator; phases end it, platforms are filled in."""
    mine = [farm.Job(id=f"j{n}", service_time=5.0, arrived_at=float(n)) for n in range(9)]
    assert farm.simulate(LITTLE, jobs=mine).jobs["job_id"].tolist() == [job.id for job in mine]
    ended = farm.simulate(LITTLE, jobs=iter(mine), phases={"run": "4s"})
    assert len(ended.jobs) == 4

    def endless(dice: Random) -> Iterator[farm.Job]:
        at = 0.0
        while True:
            at += dice.random()
            yield farm.Job(id=f"{at}", service_time=1.0, arrived_at=at)

    one, two, again = (
        farm.simulate(LITTLE, jobs=endless, phases={"run": "20s"}, seeds=seed) for seed in (1, 2, 1)
    )
    assert one.jobs["job_id"].tolist() == again.jobs["job_id"].tolist()
    assert one.jobs["job_id"].tolist() != two.jobs["job_id"].tolist()
    with pytest.raises(farm.InputError, match="in order"):
        farm.simulate(LITTLE, jobs=mine[::-1])
    with pytest.raises(farm.InputError, match="jobs: j8: found this id twice; allowed: distinct"):
        farm.simulate(LITTLE, jobs=mine + mine[-1:])


@pytest.mark.parametrize(
    ("field", "found", "allowed"),
    [
        ("id", 5, "text"),
        ("service_time", "5", "a finite number, 0 or more"),
        ("service_time", 10**400, "a finite number, 0 or more"),
        ("declared_time", "5", "a finite number, 0 or more"),
        ("declared_time", -1.0, "a finite number, 0 or more"),
        ("arrived_at", math.inf, "a finite number, 0 or more"),
        ("platform", "amd64", ".*Platform"),
        ("attributes", {"user": 5}, "a JSON object of texts"),
        ("heavy", "yes", "true or false"),
        ("level", 10**10, "a whole number, from -2147483648 to 2147483647"),
        pytest.param("level", 10**5000, "a whole number, from -2147483648 to", id="level-long"),
        ("priority", -(10**10), "a whole number, from -2147483648 to 2147483647"),
        ("score", math.nan, "a finite number"),
        ("mode", "burn", "timed, stress, memory, mixed"),
        ("threads", 0, "a whole number, from 1 to 256"),
    ],
)
def test_values_that_a_job_of_the_caller_cannot_have(field: str, found: Any, allowed: str):
    """One message with the job, the field, and what is allowed, before anything is simulated."""
    job = farm.Job(**{"id": "a", "service_time": 5.0, "arrived_at": 0.0, field: found})
    with pytest.raises(
        farm.InputError, match=f"jobs: (a|5): {field}: found .*; allowed: {allowed}"
    ):
        farm.simulate(LITTLE, jobs=[job])


def test_an_estimator_that_fails_is_a_warning():
    """Like a policy's, its errors are counted; the default time is taken then."""
    odd = farm.simulate(LITTLE, estimator=lambda job: 1 / (int(job.id[-1]) % 2), policy="sjf")
    assert odd.summary["jobs"]["succeeded"] == 30
    [told] = odd.summary["warnings"]
    assert "failed for 15 of 30 estimates; the default time was taken" in told
    assert "job amd64-000002: ZeroDivisionError" in told
    for found in (math.nan, math.inf, -1.0):
        [told] = farm.simulate(LITTLE, estimator=lambda _, it=found: it).summary["warnings"]
        assert f"job amd64-000001: returned {found}; a run time is finite" in told


def test_a_run_that_is_refused_half_way_leaves_no_directory(tmp_path: Path):
    """The same ``out`` can be used again when the mistake is mended."""
    mine = [farm.Job(id=f"j{n}", service_time=1.0, arrived_at=float(n)) for n in (0, 1, 0)]
    with pytest.raises(farm.InputError, match="in order"):
        farm.simulate(LITTLE, jobs=mine, out=tmp_path / "run", engine="reference")
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers():
    """They become Python's own, which the event log can write."""
    job = farm.Job(
        id="a", service_time=np.float32(2.5), arrived_at=np.float64(1), level=np.int64(3)
    )
    result = farm.simulate(LITTLE, jobs=[job], keep_events=True)
    assert result.jobs["finished_at_s"].tolist() == [3.5]
    submitted = next(line for line in result.events if line["at_s"] == 1.0)
    assert submitted["level"] == 3
    assert farm.simulate(LITTLE, seeds=np.array(3)).summary["seed"] == 3
    numbers = {"pools.p.builders": [np.int64(1), np.int64(2)]}
    found = farm.sweep(LITTLE, numbers, baseline={"pools.p.builders": 1}, replications=2)
    assert "2 pools.p.builders" in repr(found)
    assert len(farm.simulate(LITTLE, seeds=[1, 2])[:0].jobs) == 0


def test_compare_takes_results_and_folders(tmp_path: Path):
    """As ``farm compare`` does; a run does not differ from itself."""
    base = farm.simulate(LITTLE, out=tmp_path / "base")
    other = farm.simulate(LITTLE, policy="sjf", pools__p__builders=1)
    pairs = farm.compare(base, str(tmp_path / "base"), other).pairs
    assert {metric.verdict for metric in pairs[0].metrics} <= {"same", None}
    assert pairs[1].other == "little (sjf, seed 1)"
    verdicts = {metric.metric: metric.verdict for metric in pairs[1].metrics}
    assert verdicts["waiting_time mean"] == "worse"
    with pytest.raises(farm.InputError, match="two or more"):
        farm.compare(base)


@pytest.mark.parametrize(("library", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_data_frames(library: str, method: str, monkeypatch: pytest.MonkeyPatch):
    """A frame is made of the columns; a library that is not installed is named."""
    table = farm.simulate(LITTLE).jobs
    monkeypatch.setitem(sys.modules, library, SimpleNamespace(DataFrame=dict))
    assert list(getattr(table, method)()) == list(COLUMNS)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(farm.InputError, match=f"pip install {library}"):
        getattr(table, method)()
    with pytest.raises(
        farm.InputError,
        match=r"column: found 'waiting'; did you mean waiting_time_s\? allowed: job_id",
    ):
        table["waiting"]


def test_a_word_of_python_is_that_of_the_command_line() -> None:
    """``policy=`` wherever keys are overridden, and a mistyped one is answered with it."""
    assert farm.load_scenario("mm1", policy="sjf").scheduling.policy == "sjf"
    assert farm.load_scenario("mm1", estimator="last-3").scheduling.runtime_estimates == "last-3"
    for act in (farm.load_scenario, farm.simulate, farm.run):
        with pytest.raises(farm.InputError, match=r"^polcy: unknown; did you mean policy\?$"):
            act("mm1", polcy="sjf")
        with pytest.raises(farm.InputError, match=r"^sedes: unknown; did you mean seeds?\?$"):
            act("mm1", sedes=3)
