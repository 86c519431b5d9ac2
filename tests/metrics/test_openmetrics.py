"""A finished run as OpenMetrics text, and back-filled into a real Prometheus."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.rules import SchedulingRules
from farm.core.runtime_estimators import make_estimator
from farm.core.scheduler import Scheduler
from farm.metrics.openmetrics import Backfill, replay
from tests.metrics.prometheus import Prometheus

ROOT = Path(__file__).parents[2]


def history():
    """Two jobs of 30 s on one slot."""
    jobs = tuple(Job(id=n, service_time=30.0, platform=Platform("x", True)) for n in "ab")
    return [
        (BuilderJoined(0.0, Builder(id="b", pool="p", index=1, processors=("x",))), []),
        (JobsSubmitted(10.0, jobs), []),
        (JobFinished(40.0, "a", 1, "b", "succeeded"), []),
        (JobFinished(70.0, "b", 1, "b", "succeeded"), []),
    ]


def test_samples_stand_at_every_interval_and_include_what_was_before():
    """The queue is one deep from 10 to 40 s."""
    seen = []
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"))
    last = replay(scheduler, history(), 20.0, lambda at, values: seen.append((at, values)))
    assert last == 70.0
    assert [at for at, _ in seen] == [0.0, 20.0, 40.0, 60.0, 80.0]
    depths = [values["farm_queue_depth"].get(("x/virtual",)) for _, values in seen]
    assert depths == [None, 1.0, 0.0, 0.0, 0.0]
    done = [values["farm_jobs_total"]["succeeded",] for _, values in seen]
    assert done == [0.0, 0.0, 1.0, 1.0, 2.0]


def test_the_text_is_openmetrics():
    """prometheus_client's strict parser takes it, labels and instants and all.

    Histograms are left to promtool (below): this parser allows them one instant only.
    """
    sink, text = Backfill({"job": "run", "instance": 'od"d'}, 1000.0), io.StringIO()
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"))
    replay(scheduler, history(), 20.0, sink.add)
    count = sink.write(text)
    lines = text.getvalue().splitlines(keepends=True)
    buckets = {line.split()[2] for line in lines if line.endswith(" histogram\n")}
    others = [line for line in lines if not any(name in line for name in buckets)]
    families = list(text_string_to_metric_families("".join(others)))
    samples = [sample for family in families for sample in family.samples]
    assert len(samples) == sum(not line.startswith("#") for line in others)
    assert count == sum(not line.startswith("#") for line in lines)
    (depth,) = (f for f in families if f.name == "farm_queue_depth")
    assert [(float(s.timestamp), s.value) for s in depth.samples] == [
        (1020.0, 1.0), (1040.0, 0.0), (1060.0, 0.0), (1080.0, 0.0),
    ]  # fmt: skip
    assert depth.samples[0].labels == {
        "job": "run", "instance": 'od"d', "platform": "x/virtual",
    }  # fmt: skip


@pytest.mark.slow
def test_a_simulated_run_is_back_filled_into_prometheus(tool, tmp_path: Path):
    """simulate, export, promtool tsdb create-blocks-from, query: the queue depth of the run."""
    farm = [sys.executable, "-m", "farm.cli.main"]
    run, text, data = tmp_path / "queue", tmp_path / "run.txt", tmp_path / "data"
    scenario = ROOT / "examples" / "mmc.yaml"
    few = ["--set", "workload.0.arrivals.count=2000"]
    when = ["--start", "2024-05-01T00:00:00Z", "--interval", "15s"]
    for command in (
        [*farm, "simulate", scenario, "--quiet", "--out", run, *few],
        [*farm, "export", run, "--format", "openmetrics", "-o", text, *when],
        [tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", text, data],
    ):
        subprocess.run(command, check=True, capture_output=True)
    with Prometheus(tool("prometheus"), tmp_path, data=data) as prometheus:
        query = urllib.parse.urlencode({
            "query": 'max_over_time(farm_queue_depth{job="run", instance="queue"}[6h])',
            "time": "2024-05-01T06:00:00Z",
        })  # fmt: skip
        with urllib.request.urlopen(f"{prometheus.url}/api/v1/query?{query}", timeout=10) as answer:
            (series,) = json.load(answer)["data"]["result"]
    assert float(series["value"][1]) > 0
