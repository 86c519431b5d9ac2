"""A simulated run, backfilled into a real Prometheus with one command, in the same dashboards."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import urllib.parse
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.results.run_directory import Run, load_run
from tests.fixtures.plausibility import implausible
from tests.fixtures.prometheus import Prometheus
from tests.grafana.conftest import (
    AMD64,
    ARRIVALS,
    FOLDER,
    POOL,
    ROOT,
    SCHEDULING,
    intervals,
    load,
    panels,
    plain,
)

pytestmark = pytest.mark.slow

FARM = [sys.executable, "-m", "farm.cli.main"]
#: the text of a panel that a simulated run has no data for
LIVE_ONLY = (
    "only a live farm measures this",
    "hosts serve no metrics unless asked to",
    "only a provisioner with a process of its own reports this",
    "no job of mode stress, memory or mixed has ended",
    "ranges are told by simulations of the farm",
)
#: what a provisioner with a process of its own adds to panels of other data
PROVISIONERS_OWN = "farm_provisioner_limit_builders{"
START = 1714521600.0  # 2024-05-01T00:00:00Z

SIZES = {"algorithm": "taskcluster", "min": 1, "max": 6, "scaling_ratio": 0.5}
RANDOM = {"every": "30s", "count": 350, "service_time": {"exponential": {"mean": "2m"}}}
MATRICES = AMD64 | {"every": "15m", "count": 12, "size": 12, "service_time": "2m"}
SCENARIO = {
    "name": "filled-in",
    "seed": 3,
    "pools": [{**POOL, "provisioner": SIZES, "idle_timeout": "5m"}],
    "workload": [{"arrivals": ARRIVALS | RANDOM}, {"matrices": MATRICES}],
    "scheduling": SCHEDULING,
}


class Filled:
    """The run, and the Prometheus that has it."""

    def __init__(self, run: Run, prometheus: Prometheus, said: str, blocks: list[Path]) -> None:
        self.run = run
        self.prometheus = prometheus
        self.said = said
        self.blocks = blocks
        self.end = START + run.jobs["finished_at_s"].max()

    def at_the_end(self, expr: str) -> float:
        """Return the one number of a query at the end."""
        (series,) = self.prometheus.query(expr, self.end + 60)
        return float(series["value"][1])


@pytest.fixture(scope="module")
def filled(tmp_path_factory, tool) -> Iterator[Filled]:
    """A run of some hours, 60 s a sample."""
    tool("promtool")
    folder = tmp_path_factory.mktemp("filled")
    run, data = folder / "hours", folder / "data"
    (folder / "scenario.yaml").write_text(json.dumps(SCENARIO))
    place = ["--start", "2024-05-01T00:00:00Z"]
    for command in (
        [*FARM, "simulate", folder / "scenario.yaml", "--quiet", "--out", run],
        [*FARM, "admin", "export", run, "--format", "openmetrics", "--into", data, *place],
    ):
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    blocks = list(data.iterdir())
    with Prometheus(tool("prometheus"), folder, data=data) as prometheus:
        yield Filled(load_run(run), prometheus, done.stderr, blocks)


def numbers(result: list[dict[str, Any]]) -> list[float]:
    """Return all numbers of a result, of either kind of query."""
    values = [v for series in result for v in series.get("values", [series.get("value")])]
    return [float(v) for _, v in values if not math.isnan(float(v))]


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_every_panel_shows_the_run_or_says_why_not(filled, name):
    """Asked as Grafana asks over the run's time, with the data source for such runs."""
    step, values = intervals(START, filled.end, scrape_interval("farm-runs"))
    wrong = []
    for panel in panels(load(FOLDER / f"{name}.json")):
        live_only = any(why in panel["fieldConfig"]["defaults"]["noValue"] for why in LIVE_ONLY)
        for target in panel["targets"]:
            expr = plain(target["expr"], **values)
            if not live_only and PROVISIONERS_OWN in expr:
                assert "of a live farm" in panel["description"]
                continue
            if target["instant"]:
                found = filled.prometheus.query(expr, filled.end)
            else:
                found = filled.prometheus.query_range(expr, START, filled.end, step)
            if bool(numbers(found)) == live_only:
                wrong.append((panel["title"], target["expr"]))
    assert wrong == []


def scrape_interval(uid: str) -> float:
    """Return the scrape interval configured for this data source, seconds."""
    file = ROOT / "grafana/provisioning/datasources/prometheus.yaml"
    (found,) = (s for s in yaml.safe_load(file.read_text())["datasources"] if s["uid"] == uid)
    text = found["jsonData"]["timeInterval"]
    return float(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def test_the_numbers_shown_can_be_true(filled):
    """Bounds, the order of quantiles, and sums that must agree, over the whole run."""
    step, values = intervals(START, filled.end, scrape_interval("farm-runs"))
    first = filled.run.jobs["submitted_at_s"].min()
    begun = START + math.ceil(first / 60) * 60 + 300
    assert list(implausible(filled.prometheus, begun, filled.end, step, **values)) == []


def test_only_whole_blocks_are_put_there(filled):
    """No temporary file is left."""
    assert filled.blocks
    assert all((block / "meta.json").exists() for block in filled.blocks)


def test_the_variables_offer_the_run(filled):
    """Grafana's label_values: how the viewer finds the run."""
    found = filled.prometheus.query("farm_build_info", filled.end)
    assert [(s["metric"]["job"], s["metric"]["instance"]) for s in found] == [("run", "hours")]


def test_totals_are_those_of_the_summary(filled):
    """Jobs by outcome, waiting and response times, matrices, builder time."""
    summary = filled.run.summary
    for outcome in ("succeeded", "failed", "cancelled"):
        jobs = filled.at_the_end(f'farm_jobs_total{{outcome="{outcome}"}}')
        assert jobs == getattr(summary.jobs, outcome)
    assert filled.at_the_end("sum(farm_jobs_submitted_total)") == summary.jobs.submitted
    for what in ("waiting", "response"):
        metric = f"farm_job_{what}_seconds"
        mean = filled.at_the_end(f"sum({metric}_sum) / sum({metric}_count)")
        assert mean == pytest.approx(getattr(summary, f"{what}_time").mean)
    assert filled.at_the_end("farm_matrix_response_seconds_count") == 12
    hours = filled.at_the_end("sum(farm_builder_seconds_total)")
    assert hours == pytest.approx(summary.builder_time, rel=0.02)


def test_rates_see_every_job_from_the_first_on(filled):
    """Summed over the run, the rates that dashboards draw give the number of jobs."""
    expr = "sum(increase(farm_jobs_submitted_total[4m]))"
    drawn = filled.prometheus.query_range(expr, START + 180, filled.end + 180, 240)
    assert sum(numbers(drawn)) == pytest.approx(filled.run.summary.jobs.submitted, rel=0.05)


def test_the_deepest_queue_is_that_of_the_jobs_table(filled):
    """At the instants that are sampled, the queue is as deep as jobs.csv says."""
    came = sorted(filled.run.jobs["submitted_at_s"])
    went = sorted(at for at in filled.run.jobs["dispatched_at_s"] if not math.isnan(at))
    instants = range(0, int(filled.end - START), 60)
    deepest = max(bisect_right(came, at) - bisect_right(went, at) for at in instants)
    expr = f"max_over_time(sum(farm_queue_depth)[{math.ceil(filled.end - START)}s:60s])"
    assert filled.at_the_end(expr) == deepest > 0


def test_the_command_says_where_to_look(filled):
    """The time, and the dashboard's address with all variables."""
    where = filled.said.split("in Grafana: ")[1].split()[0]
    url = urllib.parse.urlparse(where)
    chosen = dict(urllib.parse.parse_qsl(url.query))
    assert url.path == f"/d/{json.loads((FOLDER / 'farm.json').read_text())['uid']}"
    assert chosen["var-datasource"] == "farm-runs"
    assert (chosen["var-job"], chosen["var-instance"]) == ("run", "hours")
    assert float(chosen["from"]) == START * 1000
    assert float(chosen["to"]) == pytest.approx(filled.end * 1000)
    assert "2024-05-01 00:00" in filled.said


def export_of(filled: Filled, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Fill a run into a folder's ``data``, with this ``PATH``."""
    env = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    words = [*FARM, "admin", "export", filled.run.path, "--format", "openmetrics", "--into", "data"]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=env)


def test_without_promtool_the_message_says_what_to_do(filled, tmp_path):
    """No traceback, and nothing is written."""
    done = export_of(filled, tmp_path, "/nowhere")
    assert done.returncode == 2
    assert "promtool, which is not on PATH" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_promtool_that_fails_is_reported(filled, tmp_path):
    """Its own last words, exit code 1, and no partial output left."""
    (tmp_path / "promtool").write_text("#!/bin/sh\necho 'disk is full' >&2\nexit 3\n")
    (tmp_path / "promtool").chmod(0o755)
    done = export_of(filled, tmp_path, f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 1
    assert "exit 3): disk is full" in " ".join(done.stderr.split())
    assert list((tmp_path / "data").iterdir()) == []
