"""The dashboards are current, well made, and ask for metrics that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from farm.metrics.catalogue import CATALOGUE
from tests.grafana.conftest import ROOT, metrics_in, panels, plain

#: metrics that prometheus_client brings
PROCESS = {"process_cpu_seconds_total": (), "process_resident_memory_bytes": ()}
#: labels that scraping adds
SCRAPED = {"job", "instance", "le"}


def test_the_committed_files_are_what_the_code_makes():
    """Whoever changes a board regenerates it: python grafana/generate.py."""
    pytest.importorskip("grafana_foundation_sdk")
    run = subprocess.run(
        [sys.executable, "-B", "grafana/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_uids_are_fixed_and_distinct():
    """Links and the home dashboard find them."""
    boards = [yaml.safe_load(path.read_text()) for path in (ROOT / "grafana/dashboards").iterdir()]
    uids = [board["uid"] for board in boards]
    assert sorted(uids) == ["farm", "farm-builders", "farm-fairness", "farm-scheduler"]
    assert all(board.get("id") is None for board in boards)


def test_provisioning_brings_the_data_source_that_dashboards_default_to(board):
    """One fixed uid, from the data source to the variable."""
    folder = ROOT / "grafana/provisioning"
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    (variable,) = (v for v in board["templating"]["list"] if v["type"] == "datasource")
    assert variable["current"]["value"] == source["uid"] == "farm-prometheus"
    (provider,) = yaml.safe_load((folder / "dashboards/farm.yaml").read_text())["providers"]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    mounts = [mount.split(":") for mount in compose["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in {mount[1] for mount in mounts}


# --- the rules of Grafana's dashboard-linter that concern Prometheus -------------------------


def test_template_datasource(board):
    """The data source can be chosen."""
    (variable,) = (v for v in board["templating"]["list"] if v["type"] == "datasource")
    assert (variable["name"], variable["query"]) == ("datasource", "prometheus")
    assert variable["label"]


@pytest.mark.parametrize("name", ["job", "instance"])
def test_template_job_and_instance(board, name):
    """Several farms, and runs filled in later, can be told apart."""
    (variable,) = (v for v in board["templating"]["list"] if v["name"] == name)
    assert variable["type"] == "query"
    assert variable["multi"]
    assert variable["includeAll"]
    assert variable["allValue"] == ".+"
    assert variable["label"]
    assert variable["datasource"]["uid"] == "${datasource}"
    assert variable["refresh"] == 2, "values follow the time range"
    assert variable["query"].startswith("label_values(farm_build_info")


def test_panels_have_all_that_a_viewer_needs(board):
    """Data source, title, description, unit, a text for no data, targets."""
    assert len(panels(board)) >= 4
    for panel in panels(board):
        title = panel["title"]
        assert title
        assert panel["description"].endswith("."), title
        assert panel["datasource"]["uid"] == "${datasource}", title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        assert panel["fieldConfig"]["defaults"]["noValue"], title
        assert panel["targets"], title
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


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


def test_targets_choose_job_and_instance(board):
    """target-job and target-instance: every selector asks for the chosen farms."""
    for panel in panels(board):
        for target in panel["targets"]:
            selectors = re.findall(r"\{([^}]*)\}", target["expr"])
            assert selectors, panel["title"]
            for selector in selectors:
                assert 'job=~"$job"' in selector, target["expr"]
                assert 'instance=~"$instance"' in selector, target["expr"]
            assert target["datasource"]["uid"] == "${datasource}"


def test_rates_follow_the_scrape_interval(board):
    """target-rate-interval: $__rate_interval, or the whole range where a sum over it is meant."""
    for panel in panels(board):
        for target in panel["targets"]:
            for window in re.findall(r"\[([^\]]+)\]", target["expr"]):
                assert window in ("$__rate_interval", "$__range"), target["expr"]


def test_counters_are_never_shown_raw(board):
    """target-counter-agg: a counter stands within rate or increase."""
    for panel in panels(board):
        for target in panel["targets"]:
            expr = re.sub(r"(rate|increase)\([a-z_]+\{[^}]*\}\[[^\]]+\]\)", "X", target["expr"])
            assert not re.search(r"_(total|bucket|count|sum)\{", expr), target["expr"]


def test_the_dashboard_cannot_be_edited_and_links_to_the_others(board):
    """uneditable-dashboard: the code is the source."""
    assert board["editable"] is False
    assert board["links"][0]["tags"] == ["farm"]
    assert "farm" in board["tags"]


# --- queries --------------------------------------------------------------------------------


def test_queries_name_metrics_and_labels_that_there_are(board):
    """A metric that is renamed must be renamed here too."""
    for panel in panels(board):
        for target in panel["targets"]:
            for name, labels in metrics_in(target["expr"]).items():
                base = re.sub(r"_(bucket|count|sum)$", "", name)
                metric = CATALOGUE.get(name) or CATALOGUE.get(base)
                known = PROCESS[name] if metric is None else metric.labels
                assert labels <= set(known) | SCRAPED, target["expr"]


def test_every_promised_metric_is_shown_somewhere(queries):
    """What is worth measuring is worth looking at."""
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
    rules = [
        {"record": f"check:q{number}", "expr": plain(expr)}
        for number, (_, expr) in enumerate(queries())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    run = subprocess.run([tool("promtool"), "check", "rules", file], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
