"""The alert rules, tested by promtool: each fires when it should, and not without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from farm.metrics.catalogue import CATALOGUE
from tests.grafana.conftest import metrics_in

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"


def test_promtool_runs_the_rules_tests(tool):
    """deploy/prometheus/alerts_test.yml."""
    run = subprocess.run(
        [tool("promtool"), "test", "rules", "alerts_test.yml"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_promtool_accepts_the_configuration(tool):
    """Scrape configuration and rule files."""
    run = subprocess.run(
        [tool("promtool"), "check", "config", "prometheus.yml"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_alerts_name_metrics_that_there_are_and_have_a_test():
    """A renamed metric would make an alert silent."""
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    tests = (FOLDER / "alerts_test.yml").read_text()
    for rule in group["rules"]:
        assert rule["alert"] in tests
        assert {"summary", "description"} <= set(rule["annotations"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(metrics_in(rule["expr"])) <= set(CATALOGUE)
