"""The dashboards are current, well formed, and query existing metrics."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from farm.metrics.catalogue import CATALOGUE
from farm.scenario import load_scenario
from tests.grafana.conftest import FOLDER, ROOT, load, metrics_in, panels, plain
from tests.grafana.linter import PROCESS, complaints


def test_the_committed_files_are_current():
    """After changing a dashboard run: python grafana/generate.py."""
    run = subprocess.run(
        [sys.executable, "-B", "grafana/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_uids_are_fixed_and_distinct():
    """Links and the home dashboard find them."""
    boards = [json.loads(path.read_text()) for path in (ROOT / "grafana/dashboards").iterdir()]
    uids = [board["uid"] for board in boards]
    assert sorted(uids) == ["farm", "farm-builders", "farm-fairness", "farm-scheduler"]
    assert all(board.get("id") is None for board in boards)


def test_provisioning_brings_the_data_source_that_dashboards_default_to(board):
    """One fixed uid, from the data source to the variable."""
    folder = ROOT / "grafana/provisioning"
    sources = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    (source,) = (source for source in sources if source.get("isDefault"))
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"]
    assert source["jsonData"]["timeInterval"] == scraped["scrape_interval"]
    assert [source["uid"] for source in sources] == ["farm-prometheus", "farm-runs"]
    (variable,) = (v for v in board["templating"]["list"] if v["type"] == "datasource")
    assert variable["current"]["value"] == source["uid"] == "farm-prometheus"
    (provider,) = yaml.safe_load((folder / "dashboards/farm.yaml").read_text())["providers"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    grafana = compose["services"]["grafana"]
    dashboards = provider["options"]["path"]
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == (
        f"{dashboards}/farm.json"
    )
    mounts = {mount.split(":")[1] for mount in grafana["volumes"]}
    assert Path(dashboards).parents[1].as_posix() in mounts


def test_the_shown_range_has_some_waves_of_the_load(board):
    """Of that which docker-compose.yml starts; refreshed as often as there are new numbers."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    (played,) = re.findall(r"FARM_LOAD:-([^}]+)", str(compose["services"]["load"]["command"]))
    scenario = load_scenario(ROOT / played)
    found = yaml.safe_load((ROOT / played).read_text())["workload"][0]["arrivals"]["daily_cycle"]
    hours = next(h for h in range(1, 25) if found == found[h:] + found[:h])
    wave = hours * 3600 / scenario.live.speed
    begin = re.fullmatch(r"now-(\d+)m", board["time"]["from"])
    assert begin is not None
    assert 3 <= int(begin[1]) * 60 / wave <= 5
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["global"]
    assert board["refresh"] == scraped["scrape_interval"]


def test_panel_numbers_are_distinct(board):
    """Links and annotations tell panels by their number; rows count too."""
    ids = [panel["id"] for panel in board["panels"]]
    assert len(panels(board)) >= 4
    assert len(ids) == len(set(ids))


def test_colours_mean_what_the_panel_says(board):
    """Grafana's default thresholds turn any number from 80 red; the panel states its own."""
    for panel in panels(board):
        if panel["type"] not in ("stat", "bargauge"):
            continue
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        meant = {step["color"] for step in steps} & {"orange", "red"}
        assert all(colour in panel["description"].lower() for colour in meant), panel["title"]
        assert meant or len(steps) == 1, panel["title"]


def test_counts_of_a_range_are_whole(board):
    """`increase()` extrapolates: 143.8 jobs is no number of jobs."""
    for panel in panels(board):
        for target in panel["targets"]:
            if "farm_jobs_total" in target["expr"] and "$__range]" in target["expr"]:
                assert target["expr"].startswith("round("), panel["title"]


def test_panels_do_not_overlap(board):
    """Every panel has its place on the grid of 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_dashboard_links_to_the_others_with_its_variables(board):
    """The same farm at the same time."""
    (link,) = board["links"]
    assert (link["type"], link["tags"]) == ("dashboards", ["farm"])
    assert link["includeVars"]
    assert link["keepTime"]
    assert "farm" in board["tags"]


def test_alerts_and_new_schedulers_are_marked(board):
    """Alerts, and starts of schedulers, are shown in every panel."""
    marks = {mark["name"]: mark for mark in board["annotations"]["list"]}
    assert set(marks) == {
        "Alerts",
        "Scheduler starts",
        "Rules changed",
        "Pools sized",
        "Builders lost",
    }
    for mark in marks.values():
        assert mark["datasource"]["uid"] == "${datasource}"
        assert mark["titleFormat"]
    assert "ALERTS{" in marks["Alerts"]["expr"]
    named = {name for mark in marks.values() for name in metrics_in(mark["expr"])}
    assert named <= {*CATALOGUE, *PROCESS}


def test_the_schema_of_grafana_has_every_key(board):
    """Read with the SDK's models and written again, nothing is lost: every key is real.

    Except what Grafana's data source for Prometheus adds to an annotation.
    """
    for mark in board["annotations"]["list"]:
        for key in ("titleFormat", "textFormat", "step"):
            del mark[key]
    assert lost(board, read_and_written(board)) == []
    panel = panels(board)[0]
    panel["options"]["sparkle"] = panel["targets"][0]["sparkle"] = True
    assert len(lost(board, read_and_written(board))) == 2, "the check would find it"


def read_and_written(board: dict[str, Any]) -> Any:
    """Return what the SDK's models keep of a dashboard, its panels' options and its queries."""
    register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(board)))


def lost(before: Any, after: Any, where: str = "") -> list[str]:
    """Return where something of ``before`` is missing in ``after``, or different."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [p for key, v in before.items() for p in lost(v, after.get(key), f"{where}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [p for n, pair in pairs for p in lost(*pair, f"{where}[{n}]")]
    return [] if before == after else [f"{where}: {before!r} became {after!r}"]


# --- queries --------------------------------------------------------------------------------


def test_every_promised_metric_is_shown_somewhere(queries):
    """A metric worth measuring is worth showing."""
    shown = {re.sub(r"_(bucket|count|sum)$", "", n) for _, q in queries() for n in metrics_in(q)}
    promised = {
        "farm_jobs_total", "farm_jobs_submitted_total", "farm_queue_depth", "farm_jobs_running",
        "farm_builders", "farm_slots", "farm_job_waiting_seconds", "farm_job_response_seconds",
        "farm_dispatch_estimate_seconds", "farm_dispatch_estimate_error_seconds",
        "farm_contention_slowdown_ratio", "farm_provisioner_desired_builders",
        "farm_scheduler_cycle_seconds", "farm_scheduler_leader", "farm_attempts_total",
    }  # fmt: skip
    assert promised <= shown


def test_promtool_accepts_every_query(queries, tool: Callable[[str], str], tmp_path: Path):
    """Syntax and types, as Prometheus itself sees them."""
    marks = [mark["expr"] for mark in load(FOLDER / "farm.json")["annotations"]["list"]]
    rules = [
        {"record": f"check:q{number}", "expr": plain(expr)}
        for number, expr in enumerate([*(expr for _, expr in queries()), *marks])
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    run = subprocess.run([tool("promtool"), "check", "rules", file], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


# --- the linter -----------------------------------------------------------------------------


def test_the_dashboards_keep_every_rule(board):
    """Grafana's own conventions, checked without Grafana."""
    assert complaints(board) == []
