"""Every query of every dashboard, answered by a real Prometheus that scrapes a live farm."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

from tests.fixtures.plausibility import implausible
from tests.fixtures.prometheus import Prometheus
from tests.grafana.conftest import AMD64, ARRIVALS, FOLDER, POOL, ROOT, SCHEDULING, load, plain

pytestmark = [pytest.mark.live, pytest.mark.slow]

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
SIZES = {"algorithm": "taskcluster", "min": 2, "max": 4, "scaling_ratio": 1.0}
ENDLESS = AMD64 | {"count": 100_000}
SCENARIO = {
    "name": "watched",
    "seed": 3,
    "pools": [{**POOL, "provisioner": SIZES}],
    "workload": [
        {
            "arrivals": ARRIVALS
            | ENDLESS
            | {"every": "1s", "service_time": {"exponential": {"mean": "10s"}}}
        },
        {"arrivals": ENDLESS | {"every": "20s", "service_time": "2s", "mode": "stress"}},
        {"matrices": ENDLESS | {"every": "20s", "size": 4, "service_time": "5s"}},
    ],
    "scheduling": SCHEDULING,
    "live": {"speed": 10},
}


def has_value(result: list) -> bool:
    """Return whether some series has a number."""
    return any(not math.isnan(float(series["value"][1])) for series in result)


class Watched:
    """A long-running farm with an endless load; it is down after the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.log = folder / "farm.log"
        (folder / "watched.yaml").write_text(json.dumps(SCENARIO))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FARM_")}
        self._environment = environment | {
            "PYTHONPATH": str(Path(__file__).parents[2]),
            # little work, whatever the machine: nothing has to be measured first
            "FARM_BURNER": "own",
            "FARM_WORK_RATES": "cpu=20,memory=200",
        }

    def __enter__(self) -> Self:
        up = self._start("up", "watched.yaml", "--metrics-port", "0", "--quiet")
        assert up.wait(100) == 0, self.log.read_text()
        self._load = self._start("submit", "watched.yaml")
        return self

    def __exit__(self, *_: object) -> None:
        self._load.send_signal(signal.SIGINT)
        self._load.wait(30)
        assert self._start("down", "--now").wait(60) == 0, self.log.read_text()

    @property
    def is_well(self) -> bool:
        """Return whether the load is still running."""
        return self._load.poll() is None

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "farm.cli.main", *words],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )


@pytest.mark.timeout(300)
def test_every_query_has_an_answer(queries, tool, tmp_path: Path):
    """Scheduler, provisioner and hosts scraped: soon every panel has plausible data."""
    files = f"{tmp_path}/.farm/targets/*.json"
    watching = Prometheus(tool("prometheus"), tmp_path, files=files, rules=ALERTS)
    with Watched(tmp_path) as farm, watching as asked:
        deadline = time.monotonic() + 120
        open_queries = queries()
        while open_queries:
            assert farm.is_well, farm.log.read_text()
            assert time.monotonic() < deadline, f"no answer: {open_queries}"
            time.sleep(2)
            open_queries = [
                (name, expr)
                for name, expr in open_queries
                if not has_value(asked.query(plain(expr, **{"$__rate_interval": "1m"})))
            ]
        now = time.time()
        windows = {"$__rate_interval": "1m", "$__range": "1h"}
        assert list(implausible(asked, now - 20, now, 1, **windows)) == []
        assert asked.query("sum(farm_scheduler_leader)")[0]["value"][1] == "1"
        assert asked.query("max(farm_clock_speed_ratio)")[0]["value"][1] == "10"
        for mark in load(FOLDER / "farm.json")["annotations"]["list"]:
            asked.query(plain(mark["expr"]))
        rules = asked.rules()
        assert {name: r.get("lastError") for name, r in rules.items() if r["health"] != "ok"} == {}
        assert [name for name, rule in rules.items() if rule["state"] == "firing"] == []
        jobs = {series["metric"]["job"] for series in asked.query("up == 1")}
        assert jobs == {"scheduler", "provisioner", "builders"}
        attempts = asked.query("sum by (job, host) (farm_host_attempts_total)")
        assert {series["metric"]["job"] for series in attempts} == {"builders"}
        assert all(series["metric"]["host"].startswith("host-") for series in attempts)
