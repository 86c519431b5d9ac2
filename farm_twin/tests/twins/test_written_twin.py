"""``farm twin``: the scenario that it writes waits as was checked, and says how far it may go."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farm import simulate
from farm.sim.fast.kernel import native
from farm_twin.importing import load_records
from farm_twin.tests.twins.test_twin import (
    COLUMNS,
    PEAKS,
    TEAMS,
    is_as_checked,
    only,
    ran,
    recorded,
    table,
    waits_as_recorded,
)
from farm_twin.twins.twin import write_twin
from tests.conftest import Said


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few candidates, for what does not depend on how good the best of them is."""
    monkeypatch.setattr("farm_twin.twins.search.DRAWN", 2)


def twin_of_table(farm: Callable[..., Said], jobs: list[dict[str, object]], *words: str) -> Said:
    """Return what ``farm twin`` says of a table of jobs."""
    path = table(Path("log.csv"), jobs)
    columns = [text for name in jobs[0] for text in ("--column", f"{name}={name}")]
    return farm("twin", path, "-o", "mine.yaml", *columns, *words)


def test_the_scenario_waits_as_the_records_do(tmp_path, farm: Callable[..., Said]):
    """The file that is written, played as it stands, has the recorded mean wait."""
    jobs = ran(6)
    said = twin_of_table(farm, jobs)
    assert said.code == 0
    assert said.out.startswith("this farm waits as yours did: mean ")
    assert (tmp_path / "mine.records" / "manifest.json").is_file()
    summary = json.loads(farm("simulate", tmp_path / "mine.yaml", "--json").out)
    mean = sum(job["started"] - job["submitted"] for job in jobs) / len(jobs)
    assert summary["waiting_time_s"]["mean"] == pytest.approx(mean, rel=0.001)
    assert "this twin's own errors" in " ".join(summary["remarks"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_pool_that_keda_sizes(tmp_path):
    """It is found, and its scenario, as it stands, waits as the check says: in phase, too."""
    sizing = {"algorithm": "keda", "min": 0, "max": 11, "length": "waiting+running"}
    pool = {"boot_time": "80s", "provisioner": {**sizing, "list_length": 1}}
    path = recorded(tmp_path, pool, PEAKS, fair_share=["team"])
    made = write_twin(load_records([path], "csv", COLUMNS), None, tmp_path / "mine.yaml")
    one = only(made)
    assert (one.algorithm, one.shape.runners) == ("keda", 11)
    assert one.document["boot_time"] == pytest.approx(80.0, rel=0.15)
    waits_as_recorded(one)
    is_as_checked(tmp_path / "mine.yaml", made)
    assert "first_plan: " in made.text
    assert "did so at intervals of 15s or a multiple" in made.text
    assert "nothing speaks against the defaults of stabilization_window, cooldown" in made.text


@pytest.mark.slow
def test_what_was_checked_is_what_is_written(tmp_path):
    """Pools beside each other, one of them without labels; jobs of a third one have no waits."""
    sizing = {"algorithm": "keda", "max": 9, "length": "waiting+running", "list_length": 1}
    pools = [
        {"name": "a", "boot_time": 77, "provisioner": sizing},
        {"name": "b", "builders": 4, "pickup_time": "1300ms", "inter_job_time": "3457ms"},
        {"name": "c", "builders": 2},
    ]
    times = {"count": 250, "service_time": {"lognormal": {"median": "4m", "sigma": 0.7}}}
    jobs: dict[str, Any] = {**times, "poisson": {"rate": "70/h"}, **TEAMS}
    document: dict[str, Any] = {
        "seed": 4,
        "pools": [{**one, "platform": {"processor": one["name"]}} for one in pools],
        "workload": [{"arrivals": {**jobs, "platform": {"processor": n}}} for n in "abc"],
        "scheduling": {"fair_share": ["team"], "weights": {"infra": 2}},
    }
    simulate(document, out=tmp_path / "truth")
    records = load_records([tmp_path / "truth" / "jobs.csv"], "csv", COLUMNS)
    hidden: dict[str, dict[str, Any]] = {"a": {"platform": ""}, "b": {}, "c": {"eligible_at": None}}
    attempts = [msgspec.structs.replace(one, **hidden[one.platform[0]]) for one in records.attempts]
    known = msgspec.structs.replace(records, attempts=attempts)
    made = write_twin(known, None, tmp_path / "mine.yaml")
    assert sorted(one.platforms[0] for one in made.pools) == ["", "b/virtual"]
    assert "unjudged: since when these 250 jobs waited is not in the records" in made.remarks[-1]
    is_as_checked(tmp_path / "mine.yaml", made)


@pytest.mark.slow
def test_a_search_is_bounded(tmp_path, monkeypatch, farm: Callable[..., Said]):
    """By the time of a processor: the best so far is checked, and one line says so."""
    sized = {"boot_time": "80s", "provisioner": {"algorithm": "gitlab", "min": 0, "max": 8}}
    path = recorded(tmp_path, sized)
    columns = [text for pair in COLUMNS.items() for text in ("--column", "=".join(pair))]
    monkeypatch.setattr(native, "is_there", lambda: False)
    monkeypatch.setattr("farm_twin.twins.twin.MOST_TIME", 0.5)
    said = farm("twin", path, "-o", tmp_path / "mine.yaml", "--json", *columns)
    said_so = "searched less far: the best of what was tried in 300ms of a processor, without the"
    assert said.err.count(said_so) == 1
    [pool] = json.loads(said.out)["pools"]
    assert pool["check"] is not None
    assert pool["played"] <= 60


CAPPED = "a cap of 1 at once on name deploy"


@pytest.mark.usefixtures("short_search")
def test_a_twin_that_is_not_believable_is_written_and_marked(farm: Callable[..., Said]):
    """Its what-ifs looked like any others: "-60.6 % better", where the truth was nothing."""
    said = twin_of_table(farm, ran(14, cap=1))
    assert said.code == 1
    assert said.out.startswith("no simulated farm that waits as yours did was found\n")
    assert "none: " in said.out
    assert "what would help: " in said.out

    text = Path("mine.yaml").read_text()
    assert "\n  # do not rely on it: none: " in text
    assert "twin: {grade: cannot-tell, " in text
    for command in (("simulate", "mine.yaml"), ("sweep", "mine.yaml", "-n", 2)):
        answered = " ".join(farm(*command).out.split())
        assert answered.startswith("No twin of pool "), command
        assert CAPPED in answered
    remarks = json.loads(farm("simulate", "mine.yaml", "--json").out)["remarks"]
    assert CAPPED in remarks[0]


@pytest.mark.usefixtures("short_search")
def test_strict_writes_nothing_that_is_not_believable(tmp_path, farm: Callable[..., Said]):
    """For programs that go on with what was written: exit 2, with the reason."""
    said = twin_of_table(farm, ran(14, cap=1), "--strict", "--quiet")
    assert said.code == 2
    assert "mine.yaml: not written with --strict: no simulated farm" in said.err
    assert [one.name for one in tmp_path.iterdir()] == ["log.csv"]


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(
    ("servers", "jobs", "words"),
    [(6, 3, "too few jobs to check (20 in each half"), (99, 80, "every wait is zero")],
)
def test_records_that_cannot_be_checked_have_a_twin_that_says_so(farm, servers, jobs, words):
    """Too few jobs, or none that waited: what is known of the farm is written all the same."""
    said = twin_of_table(farm, ran(servers)[:jobs], "--json")
    assert said.code == 1
    made = json.loads(said.out)
    assert (made["grade"], made["written"]) == ("cannot-tell", "mine.yaml")
    [pool] = made["pools"]
    assert pool["grade"] == "none"
    assert words in pool["verdict"]
    assert farm("simulate", "mine.yaml", "--quiet").code == 0


def test_a_search_that_is_stopped_writes_what_is_known(tmp_path):
    """Ctrl-C after half a minute lost all that was tried until then."""
    pool = {"boot_time": "80s", "provisioner": {"algorithm": "gitlab", "max": 8}}
    path = recorded(tmp_path, pool)
    records = load_records([path], "csv", COLUMNS)
    made = write_twin(records, None, tmp_path / "mine.yaml", is_stopped=lambda: True)
    assert only(made).played <= 3
    assert "stopped: the best of what was tried until then" in made.remarks
    assert len(simulate(tmp_path / "mine.yaml").jobs) == 1200


def pipelines(runners: int, builds: int, *, stages: int = 4, seed: int = 5) -> list[dict[str, Any]]:
    """Return jobs of which each but the first of a build comes when the one before has ended."""
    draw = random.Random(seed)
    coming: list[tuple[float, int, int]] = []
    at = 0.0
    for build in range(builds):
        at += draw.expovariate(1 / 400)
        coming.append((at, build, 0))
    free = [0.0] * runners
    done = []
    while coming:
        arrives, build, stage = heapq.heappop(coming)
        runner = min(range(runners), key=lambda number: free[number])
        start = max(arrives, free[runner])
        free[runner] = end = start + draw.lognormvariate(0, 0.5) * 300
        done.append(
            {
                "id": f"{build}-{stage}",
                "kind": f"stage-{stage}",
                "submitted": arrives,
                "started": start,
                "finished": end,
                "runner": f"r-{runner}",
            }
        )
        if stage + 1 < stages:
            heapq.heappush(coming, (end + 1.0, build, stage + 1))
    return done


def test_jobs_that_others_release_make_a_twin_that_is_not_sure(farm: Callable[..., Said]):
    """It waits as recorded to the second, and says of another farm up to 4.5 times too much."""
    said = twin_of_table(farm, pipelines(4, 150), "--json")
    assert said.code == 0
    made = json.loads(said.out)
    assert made["grade"] == "likely"
    assert made["open_loop"] > 0.4
    assert [one["what"] for one in made["assumed"]] == ["arrivals", "run times"]
    assert "what it says of another farm is not sure" in made["sentence"]

    text = Path("mine.yaml").read_text()
    assert "# Open loop: " in text
    assert "twin: {grade: likely, " in text
    name = made["pools"][0]["name"]
    swept = farm("sweep", "mine.yaml", "--vary", f"pools.{name}.builders=4,5", "-n", 2)
    assert swept.out.startswith("Not sure, as this twin is open-loop: ")
    planned = farm("plan", "mine.yaml", "--slo", "mean(waiting_time) < 1m", "--replications", 1)
    assert planned.out.startswith("not sure, as this twin is open-loop: ")
