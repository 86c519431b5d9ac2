"""A long-running farm, operated by its commands: farm up, submit, jobs, cancel, drain, down."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.processes import await_gone
from tests.worlds.up import ELASTIC, Up, scenario

pytestmark = pytest.mark.live


@pytest.fixture
def up(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Up]:
    """A running farm, which is down after the test whatever happens."""
    farm = Up(tmp_path, getattr(request, "param", ""))
    with farm.running("--json") as told:
        *_, document = told.splitlines()  # after remarks on standard error
        assert json.loads(document).items() >= {"prefix": "tested:", "dir": ".farm"}.items()
        yield farm


def write_jobs(path: Path, count: int, service_time: float) -> None:
    """Write a csv file of jobs for two users."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["job_id", "submitted_at_s", "service_time_s", "platform", "attributes"])
        for number in range(count):
            user = json.dumps({"user": "ann" if number % 2 else "bob"})
            table.writerow([f"j{number:05}", 0, service_time, "amd64/virtual", user])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_jobs_half_of_them_cancelled_and_a_pool_drained_under_load(up: Up):
    """Submitting a file, paging through it, cancelling half, draining mid-work, undraining."""
    write_jobs(up.folder / "jobs.csv", 10_000, 100)
    assert "10,000 jobs submitted" in up.farm("submit", "jobs.csv")
    assert up.rows("status")[0]["attended"]
    up.until(lambda: up.status()["submitted"] == 10_000, "taking in")
    assert "known to the farm already" in up.farm("submit", "jobs.csv", code=2)

    # every id exactly once, while the farm works on them
    seen, after = [], ()
    while page := up.rows("jobs", "--state", "all", *after, "--limit", "2500"):
        seen.extend(row["job_id"] for row in page)
        after = ("--after", seen[-1])
    assert seen == [f"j{number:05}" for number in range(10_000)]
    waiting = [row["job_id"] for row in up.rows("jobs", "--state", "waiting", "--limit", "0")]
    assert waiting == seen[-len(waiting) :]  # policy order: first come, first served
    assert {r["user"] for r in up.rows("jobs", "--user", "ann", "--limit", "9")} == {"ann"}

    half = "\n".join(f"j{number:05}" for number in range(0, 10_000, 2))
    asked = json.loads(up.farm("cancel", "-", "--reason", "too many", "--json", stdin=half))
    assert asked["asked"]["jobs"] + asked["ended"] == 5000
    up.until(lambda: up.status()["ended"].get("cancelled", 0) >= 4900, "cancelling")
    one = up.rows("job", "j09998")[0]
    assert (one["state"], one["reason"]) == ("cancelled", "too many")
    assert "5 jobs" in up.farm("cancel", "--user", "ann", "--match", "j0999*")
    up.until(lambda: up.state_of("j09999") == "cancelled", "cancelling by pattern")
    again = ("retry", "--state", "cancelled", "--match", "j0999*")
    assert "10 jobs submitted again" in up.farm(*again)
    up.until(lambda: len(up.rows("jobs", "--match", "j0999?~2")) == 10, "trying again")
    assert "0 jobs submitted again" in up.farm(*again)
    assert "0 jobs submitted, 10,000 known" in up.farm("submit", "jobs.csv", "--skip-known")

    up.until(lambda: up.status()["builders"].get("building", 0) == 5, "growing to max")
    up.farm("drain", "linux-*")
    up.until(lambda: up.status()["builders"].get("draining"), "draining")
    assert up.rows("builders", "--state", "draining")
    # no process is killed: running jobs end as if nothing had happened
    up.until(lambda: not up.status()["running"], "the end of running jobs")
    assert up.status()["ended"]["succeeded"] >= 20
    waiting = up.status()["waiting"]
    why = next(iter(up.rows("jobs", "--state", "waiting", "--limit", "1")))["job_id"]
    assert "drained" in up.rows("job", why)[0]["why_waiting"]
    assert "pool linux: at its limit of 5, 5 of them draining" in up.farm("job", why, "--why")
    assert up.rows("job", why)[0]["estimated_dispatch_in_s"] is None  # no builder would take it
    up.farm("drain", "--undo", "linux-*")
    up.until(lambda: up.status()["waiting"] < waiting, "going on")
    assert "more: farm jobs" in up.farm("jobs")
    last = up.rows("jobs", "--state", "waiting", "--offset", "1000", "--limit", "1")[0]["job_id"]
    assert up.rows("job", last)[0]["estimated_dispatch_in_s"] > 1000

    (pool,) = up.rows("pools")
    assert (pool["pool"], pool["desired"]) == ("linux", 5)
    pids = up.processes()
    up.farm("down", "--now")
    await_gone(pids, 15)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_waiting_jobs_survive_the_farm_and_a_second_farm_is_refused(up: Up):
    """Down and up again: the queue is kept; ids are used once; ended jobs can be retried."""
    assert "is up in .farm already" in up.farm("up", "farm.yaml", code=2)
    assert up.farm("submit", "--service-time", "1h", "--id", "long", "--count", "30")
    for _ in range(3):  # as often as a job may be lost, and more often
        up.until(lambda: up.status()["running"] == 20, "running")
        pids = up.processes()
        assert up.rows("down", "--now") == [{"down": ".farm"}]
        await_gone(pids, 15)
        assert "no farm is running here" in up.farm("status", code=2)
        assert "no farm is running here" in up.farm("down", code=2)
        up.farm("up", "farm.yaml")
    live = up.rows("jobs", "--state", "all", "--limit", "100")
    assert {row["state"] for row in live} <= {"waiting", "dispatched", "running"}
    assert len(live) == 30
    up.until(lambda: up.status()["running"] == 20, "running again")
    tries = up.rows("job", "long-2")[0]["tries"]
    assert [(one["attempt"], one["reason"]) for one in tries] == [
        (number, "its host left") for number in (1, 2, 3)
    ]
    up.farm("cancel", "long-1")
    up.until(lambda: up.state_of("long-1") == "cancelled", "cancelling")
    assert "known to the farm already" in up.farm(
        "submit", "--service-time", "1s", "--id", "long-1", code=2
    )
    assert "allowed: a job that has ended" in up.farm("retry", "long-2", code=2)
    assert up.farm("retry", "long-1").strip() == "long-1~2"
    assert up.farm("submit", "-", stdin='{"service_time_s": 1, "job_id": "urgent", "level": 9}\n')
    up.until(lambda: up.rows("jobs", "--state", "waiting"), "waiting")
    assert up.rows("jobs", "--state", "waiting")[0]["job_id"] == "urgent"
    (told,) = json.loads(up.farm("job", "long-2", "--why", "--json"))[:1]
    assert told["job"] == "long-2"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_provisioner_scheduler_and_server_restart_and_adopt(up: Up):
    """SIGKILL at any: the same hosts, the same builders, no attempt lost."""
    up.farm("submit", "--service-time", "1h", "--id", "a", "--count", "20")
    up.until(lambda: up.status()["running"] == 20, "running")
    builders, hosts = {row["builder"] for row in up.rows("builders")}, up.hosts()
    for service, words in (("provisioner", "sizing linux"), ("scheduler", "in charge of")):
        os.kill(min(up.processes(service)), signal.SIGKILL)
        up.until(lambda words=words: up.said(words) == 2, "coming back, or taking over")
    up.until(lambda: up.status()["running"] == 20, "running on")
    os.kill(min(up.processes("redis-server", "valkey-server")), signal.SIGKILL)
    up.until(lambda: up.said("the server had ended unasked", "farm"), "a new server")
    up.farm("submit", "--service-time", "1s", "--id", "after")
    up.until(lambda: up.state_of("after") != "unknown", "going on")
    assert {row["builder"] for row in up.rows("builders")} == builders
    assert up.hosts() == hosts
    rows = up.rows("jobs", "--state", "running", "--limit", "100")
    assert [row["attempts"] for row in rows] == [1] * 20
    pids = up.processes()
    up.kill_keeper()
    await_gone(pids, 15)
    assert "is not running (it ended without saying so" in up.farm("status", code=2)
    assert "had ended already" in up.farm("down", code=1)


SHAKY = scenario("builders: 1", "failures: launchpad", "speed: 20")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("up", [SHAKY], indirect=True)
def test_a_builder_that_always_fails_is_taken_out_and_a_job_that_does_fails(up: Up):
    """Not forever, though there is only one builder; every view shows the failed builder."""

    def submit(name: str) -> None:
        line = {"service_time_s": 1, "job_id": name, "fails": True}
        up.farm("submit", "-", stdin=json.dumps(line))

    submit("broken")
    up.until(lambda: up.state_of("broken") == "failed", "the bound of its tries")
    (story,) = up.rows("job", "broken")
    assert (story["attempts"], story["builder"]) == (4, "linux-1")
    assert story["reason"] == "the attempt failed (failures: job 4, builder 4)"
    assert [one["reason"] for one in story["tries"]] == [
        f"the attempt failed (failures: job {n}, builder {n})" for n in (1, 2, 3)
    ]
    # with a second job the builder is ahead: its fifth failure counts against itself
    submit("innocent")
    up.until(lambda: up.status()["builders"] == {"failed": 1}, "the builder's end")
    (row,) = up.rows("builders", "--state", "failed")
    assert row["remark"].startswith("taken out after 5 failures in a row")
    (pool,) = up.rows("pools")
    assert (pool["states"], pool["remarks"]) == (
        {"failed": 1},
        ["1 failed (farm drain --undo mends them)"],
    )
    (view,) = json.loads(up.farm("status", "--save", "-"))["snapshot"]["builders"]
    assert (view["condition"], view["failures"]) == ("failed", 5)
    assert "pool linux: 1 failed (farm drain --undo mends them)" in up.farm(
        "job", "innocent", "--why"
    )
    up.farm("drain", "--undo", "linux-*")
    up.until(lambda: up.state_of("innocent") == "failed", "the second try")
    assert up.rows("builders")[0]["failures"] == 0  # this time it was the job


@pytest.mark.slow
@pytest.mark.parametrize("up", [scenario(live="speed: 60")], indirect=True)
def test_a_pool_gets_another_size_while_it_works(up: Up):
    """More builders come, and go when empty; the what-if starts from the chosen size."""
    up.farm("submit", "--service-time", "6m", "--count", "3", "--prefix", "long")
    told = up.farm("set", "pools.linux.builders=4")
    assert told.splitlines() == [
        "pools.linux.builders: 2 -> 4",
        "back: farm set pools.linux.builders=2",
    ]
    up.until(lambda: up.status()["running"] == 3, "growing")
    assert json.loads(up.farm("status", "--save", "-"))["scenario"]["pools"][0]["builders"] == 4
    up.farm("set", "pools.linux.builders=1", "scheduling.policy=sjf")
    up.until(lambda: len(up.rows("builders")) == 1, "shrinking")
    # those that went had ended their jobs
    up.until(lambda: up.status()["ended"].get("succeeded", 0) >= 2, "the status")
    assert "pools.linux.builders=1\n" in up.farm("set")


JOBLESS = re.sub(r"(?m)^workload.*\n", "", scenario(live="speed: 60"))


@pytest.mark.slow
@pytest.mark.parametrize("up", [JOBLESS], indirect=True)
def test_a_farm_needs_no_workload(up: Up):
    """Its jobs are submitted: scheduler, provisioner, readers of its log and its next start."""
    assert "workload" not in (up.folder / "farm.yaml").read_text()
    up.farm("submit", "--service-time", "1m", "--count", "2", "--id", "one")
    up.until_ended("one-1", "one-2")
    up.farm("down")
    assert "sound" in up.farm("admin", "audit", ".farm/log")
    up.farm("up", "farm.yaml")
    up.farm("submit", "--service-time", "1m", "--id", "next")
    up.until_ended("next")


@pytest.mark.slow
@pytest.mark.parametrize("up", [scenario(pool=ELASTIC, live="speed: 60")], indirect=True)
def test_a_provisioner_gets_another_limit_while_it_works(up: Up):
    """The service, another process, plans by it from its next plan on."""
    up.farm("submit", "--service-time", "60m", "--count", "40")
    up.until(lambda: len(up.rows("builders")) == 5, "growing to max")
    up.farm("set", "pools.linux.provisioner.max=7")
    up.until(lambda: len(up.rows("builders")) == 7, "growing to the new max")
