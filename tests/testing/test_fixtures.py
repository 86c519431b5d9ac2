"""The fixtures of farm.testing: a farm on fakeredis in virtual time, simulations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.events import CancelRequested, DrainRequested
from farm.core.model import Job
from farm.live.wire.messages import UNSTAMPED
from farm.testing import VirtualFarm, simulated, small_scenario

SIZES = {"algorithm": "taskcluster", "min": 1, "max": 2, "interval": "10s"}
SCENARIO = small_scenario(
    {"name": "linux", "boot_time": "30s", "provisioner": SIZES},
    {"every": "10s", "count": 5, "service_time": "1m"},
    scheduling={"policy": "sjf"},
)


def job(name: str, time: float = 60.0) -> Job:
    """Return a job of this many seconds."""
    return Job(id=name, service_time=time, declared_time=time)


def test_a_virtual_farm_lives_a_whole_life() -> None:
    """Provisioned, dispatched, cancelled, drained: through a live farm's store and inbox."""
    farm = VirtualFarm(SCENARIO)
    farm.submit(job("long", 600.0), job("short"), job("other", 300.0))
    assert farm.state("long") == "waiting", "the first builder boots"
    farm.advance("1m")
    assert farm.at == 60.0
    assert [farm.state(name) for name in ("short", "other", "long")] == [
        "running", "running", "waiting",
    ]  # fmt: skip
    told = farm.explain("long").job
    assert told is not None
    assert (told.ahead, told.why) == (
        0,
        "all 2 builders that could run it are busy, it is the next",
    )
    forecast = farm.forecast("long")
    assert forecast is not None
    assert forecast.start_low is not None
    assert forecast.start is not None
    assert forecast.start_high is not None
    assert forecast.start_low < forecast.start < forecast.start_high
    assert farm.forecast("short") is None, "it runs"
    farm.operator.send(CancelRequested(UNSTAMPED, ("long",), reason="not needed"))
    farm.advance(0)
    assert farm.state("long") == "cancelled"
    assert len(farm.operator.builders()) == 2
    assert farm.operator.status().ended == {"cancelled": 1}
    farm.operator.send(DrainRequested(UNSTAMPED, "linux-1"))
    farm.advance_until_idle()
    assert farm.state("other") == "succeeded"
    assert farm.operator.builders()["linux-1"].draining


@pytest.mark.parametrize("pool", [{}, {"contention": {"slowdown": [1, 1]}}])
def test_a_simulated_job_shows_its_progress(pool: dict[str, Any]) -> None:
    """Of every kind of emulated builder: it was declared four times as long as it is."""
    farm = VirtualFarm(SCENARIO | {"pools": [SCENARIO["pools"][0] | {"boot_time": "0s"} | pool]})
    farm.submit(Job(id="a", service_time=60.0, declared_time=240.0))
    farm.advance("45s")
    told = farm.explain("a").job
    assert told is not None
    assert (told.elapsed_time, told.done, told.remaining_time) == (45.0, 0.75, 15.0)


def test_its_status_is_counted_as_a_live_farm_s() -> None:
    """Every builder counts as what it does, a booting one too; so does every queue."""
    farm = VirtualFarm(SCENARIO)
    assert farm.operator.status().builders == {"booting": 1}
    farm.submit(*(job(name) for name in ("a", "b", "c")))
    farm.advance("35s")
    status = farm.operator.status()
    assert status.builders == {"building": 1, "booting": 1}
    assert (status.running, status.waiting, status.queues) == (1, 2, {"any/virtual": 2})


def test_the_same_farm_again_does_the_same() -> None:
    """Virtual time is deterministic."""

    def played() -> list[tuple[str, float]]:
        farm = VirtualFarm(SCENARIO)
        farm.submit(*(job(f"j{n}", 40.0 + 7 * n) for n in range(9)))
        farm.advance_until_idle()
        found = farm.operator.jobs("ended")
        return [(one.job.id, one.finished_at) for one in found]  # type: ignore[union-attr]

    assert played() == played()


def test_no_job_of_a_virtual_farm_arrives_after_it_was_submitted() -> None:
    """As on a live farm, whatever its submitter wrote on it."""
    built = VirtualFarm("mm1")
    built.submit(Job(id="ahead", service_time=60.0, arrived_at=3600.0))
    built.advance("2m")
    end = built.operator.job("ahead")
    assert isinstance(end, EndJob)
    assert (end.job.arrived_at, end.finished_at) == (0.0, 60.0)


def test_waiting_for_an_idle_farm_is_bounded() -> None:
    """A farm that never gets idle fails the test, with what is left."""
    farm = VirtualFarm(SCENARIO)
    farm.submit(job("endless", 1e7))
    with pytest.raises(AssertionError, match="1 jobs are left"):
        farm.advance_until_idle("1h")


def test_assertions_on_a_simulation() -> None:
    """Objectives are as in `farm plan`; a missed one reports what was found."""
    run = simulated(SCENARIO, pools__linux__provisioner__max=5)
    assert run.measured("max(waiting_time)") < 60.0
    run.assert_that("p95(waiting_time) < 5m and max(response_time) <= 2m")
    with pytest.raises(AssertionError, match=r"p95\(waiting_time\) < 1s: found "):
        run.assert_that("p95(waiting_time) < 1s")
    with pytest.raises(InputError, match="allowed: STATISTIC"):
        run.assert_that("the jobs are quick")
    assert run.summary["jobs"]["succeeded"] == 5


# --- docs/how-to/testing.md: a user's tests, copied from the page and run -------------------------

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/testing.md"


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(300)
def test_the_pages_tests_pass(tmp_path: Path) -> None:
    """Each block is the file that its first line names; together they are a test suite."""
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert next(name for name, _ in blocks) == "conftest.py"
    assert len(blocks) == 4
    for name, code in blocks:
        (tmp_path / name).write_text(code, "utf-8")
    words = "-m pytest -q -p no:cacheprovider --rootdir ."
    done = subprocess.run(
        [sys.executable, *words.split()],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
