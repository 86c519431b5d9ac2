"""Estimates on a live farm: read while a job waits, compared with the truth afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from farm.core.errors import ServerError
from farm.core.events import EstimateMade
from farm.core.model import Job
from farm.forecasts.dispatch.view import view_of
from farm.live.operating.answers import FarmImage
from farm.live.operating.client import FarmClient
from farm.live.redis.server import choose_server
from farm.results.estimate_scores import score
from farm.results.run_directory import load_run
from farm.upstream.launchpad import LAUNCHPAD
from tests.fixtures.estimates import estimate_dispatch
from tests.fixtures.processes import ROOT, environment, own_port, running, until
from tests.worlds.up import AMD64, FARM, Service

pytestmark = pytest.mark.live
TRACES = Path(os.environ.get("FARM_TRACES", ROOT.parent / "shared" / "traces"))
TRACE = TRACES / "firefox-ci" / "gecko-t-t-win10-64.dat"


def workload() -> dict[str, object]:
    """A slice of a recording if there is one, else jobs that look like it."""
    if TRACE.is_file():
        return {"trace": {"path": str(TRACE), "jobs": 60, "time_scale": 0.1}}
    service = {"lognormal": {"median": "20m", "sigma": 0.5}}
    return {"arrivals": {"poisson": {"rate": "0.3/s"}, "count": 60, "service_time": service}}


@pytest.fixture
def run(tmp_path: Path):
    """A live run on a server of its own: (its URL, its directory, its metrics, its process)."""
    scenario = {
        "name": "live-estimates",
        "pools": [{"name": "windows", "platform": {"processor": "x"}, "builders": 8}],
        "workload": [workload()],
        "scheduling": {"runtime_estimates": "last-3"},
        "live": {"speed": 600},
    }
    (tmp_path / "scenario.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    port = own_port()
    with choose_server(None) as server:
        words = ["run", "scenario.yaml", "--redis", server.url, "--out", "run", "--quiet"]
        with running([*FARM, *words, "--metrics-port", port], tmp_path, "log") as process:
            yield server.url, tmp_path / "run", f"http://127.0.0.1:{port}/metrics", process


@pytest.mark.slow
def test_the_estimate_of_a_waiting_job_and_its_error(run) -> None:
    """Snapshot, formula, commands and metrics agree on a waiting job; afterwards it is scored."""
    url, directory, metrics, process = run
    with FarmClient(url) as client:
        images: list[FarmImage] = []

        def has_queue() -> bool:
            with contextlib.suppress(ServerError):
                images.append(client.image(timeout=2.0))
            return bool(images) and len(images[-1].snapshot.waiting) >= 10

        until(has_queue, "a queue")
    image = images[-1]
    chosen = image.snapshot.waiting[-1]
    found = estimate_dispatch(view_of(image.snapshot), chosen.serial, LAUNCHPAD)
    assert found.estimate_s is not None
    assert found.estimate_s >= LAUNCHPAD.floor_s
    assert image.statistics is not None
    asked = [  # at once: the run lasts a few times as long as a command
        subprocess.Popen(
            [*FARM, *words, "--redis", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for words in (
            ["admin", "estimate", "--json"],
            ["whatif", "--json", "--set", "pool.windows.builders=+4"],
            ["status", "--save", "-", "--state"],
        )
    ]
    for command in asked:
        answer, trouble = command.communicate(timeout=120)
        assert command.returncode == 0, trouble
        json.loads(answer)
    while "farm_dispatch_estimate_seconds{" not in urllib.request.urlopen(metrics).read().decode():
        assert process.poll() is None, "the run ended, and its metrics never had an estimate"
        time.sleep(0.2)
    assert process.wait(120) == 0
    finished = load_run(directory)
    made = {
        entry.event.job: entry.event
        for entry in finished.entries()
        if isinstance(entry.event, EstimateMade)
    }
    assert len(made) == 60
    told = made[chosen.job.id]
    assert told.rules == "rollout"
    assert told.waiting > 0
    assert told.dispatch_at is not None
    row = next(row for row in finished.jobs if row["job_id"] == chosen.job.id)
    assert row["estimated_dispatch_at_s"] == told.dispatch_at
    assert row["dispatched_at_s"] >= 0
    scores = {one.rules: one for one in score(finished.entries())}
    # those that were dispatched before their rollouts began have the formula's
    assert sum(one.scored + one.at_once for one in scores.values()) == 60
    assert scores["rollout"].scored > 30
    assert scores["rollout"].mean_absolute_error_time is not None


@pytest.mark.slow
def test_what_was_learned_survives_a_scheduler(hostless: Service) -> None:
    """The statistics in Redis are those that the next scheduler begins with."""
    hostless.scenario(scheduling=", runtime_estimates: last-3")

    def runs(client: FarmClient) -> dict[str, Any]:
        with contextlib.suppress(ServerError):
            learned = client.image(timeout=2.0).statistics or {}
            return learned.get("statistics", {}).get("runs", {})
        return {}

    with FarmClient(hostless.url, hostless.keys.prefix) as client:
        hostless.start("--hosts", "1", joined=3)
        hostless.submit([Job(id="one", service_time=0.1, kind="unit", platform=AMD64)])
        hostless.until(lambda: runs(client), "learning")
        before = runs(client)
        assert hostless.end() == 0
        hostless.start("--hosts", "1")
        hostless.until(lambda: runs(client) == before, "remembering")
        assert hostless.end() == 0
