"""Every query of every dashboard, answered by a real Prometheus that scrapes a live farm."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farm.live.server import free_port
from tests.grafana.conftest import plain
from tests.metrics.prometheus import Prometheus

pytestmark = [pytest.mark.live, pytest.mark.slow]

SCENARIO = """
name: watched
seed: 3
pools:
  - name: linux
    platform: {processor: amd64}
    slots: 2
    boot_time: 1m
    provisioner: {algorithm: taskcluster, min: 2, max: 4, scaling_ratio: 1.0}
    contention: {slowdown: thesis}
workload:
  - arrivals:
      platform: {processor: amd64}
      every: 1s
      count: 100000
      service_time: {exponential: {mean: 10s}}
      attributes: {team: {red: 2, blue: 1}, build: [a, b]}
      heavy: {probability: 0.3}
      fails: 0.1
  - matrices:
      platform: {processor: amd64}
      every: 20s
      count: 100000
      size: 4
      service_time: {constant: 5s}
scheduling: {fair_share: [team, build], stickiness: [0s, 1m]}
live: {speed: 10}
"""


def has_value(result: list) -> bool:
    """Whether some series has a number."""
    return any(not math.isnan(float(series["value"][1])) for series in result)


@pytest.mark.timeout(180)
def test_every_query_has_an_answer(queries, tool, tmp_path: Path):
    """After some real seconds every panel shows a number."""
    (tmp_path / "watched.yaml").write_text(SCENARIO)
    port = free_port()
    command = [sys.executable, "-m", "farm.cli.main", "run", "watched.yaml", "--quiet"]
    with (tmp_path / "farm.log").open("w") as log:
        farm = subprocess.Popen(
            [*command, "--metrics-port", str(port)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=log,
            stderr=log,
        )
    try:
        target = {"farm": f"127.0.0.1:{port}"}
        with Prometheus(tool("prometheus"), tmp_path, targets=target) as prometheus:
            deadline = time.monotonic() + 120
            open_queries = queries()
            while open_queries:
                assert farm.poll() is None, (tmp_path / "farm.log").read_text()
                assert time.monotonic() < deadline, f"no answer: {open_queries}"
                time.sleep(2)
                open_queries = [
                    (name, expr)
                    for name, expr in open_queries
                    if not has_value(prometheus.query(plain(expr, **{"$__rate_interval": "1m"})))
                ]
    finally:
        farm.send_signal(signal.SIGINT)
        time.sleep(0.5)
        farm.send_signal(signal.SIGINT)
        farm.wait(30)
