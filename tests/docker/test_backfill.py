"""A simulated run piped into the composed Prometheus, as docs/reference/metrics.md shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.docker.conftest import ROOT
from tests.worlds.composed import Composed

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

FARM = [sys.executable, "-m", "farm.cli.main"]
FEW = ["--set", "workload.0.arrivals.count=200"]


def test_one_line_fills_a_run_into_the_composed_prometheus(composed: Composed, tmp_path: Path):
    """Its user may write there, its promtool knows the options, it finds the blocks."""
    run, mmc = tmp_path / "piped", ROOT / "examples" / "mmc.yaml"
    subprocess.run([*FARM, "simulate", mmc, "--quiet", "--out", run, *FEW], check=True)
    export = [*FARM, "export", run, "--format", "openmetrics", "-o", "-"]
    text = subprocess.run(export, check=True, capture_output=True, text=True).stdout
    composed.compose("up", "-d", "prometheus", timeout=800)
    composed.compose("exec", "-T", "prometheus", "sh", "-c", documented(), given=text)
    composed.until(lambda: jobs_of(composed, "piped") == 200, "seeing the run", timeout=180)


def documented() -> str:
    """Return the command that the page runs in the container."""
    page = (ROOT / "docs/reference/metrics.md").read_text()
    (line,) = re.findall(r"docker compose exec -T prometheus sh -c '([^']+)'", page)
    return line


def jobs_of(composed: Composed, run: str) -> float:
    """Return how many jobs Prometheus counts for a run; 0 while it knows of none."""
    query = f"sum(max_over_time(farm_jobs_total%7Binstance=%22{run}%22%7D[10d]))"
    try:
        with urllib.request.urlopen(f"{composed.prometheus}/api/v1/query?query={query}") as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return 0.0
    return float(found[0]["value"][1]) if found else 0.0
