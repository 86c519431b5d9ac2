"""The alert rules, tested by promtool: each fires when it should, and not otherwise."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest
import yaml

from farm.metrics.catalogue import CATALOGUE
from tests.grafana.conftest import FOLDER as DASHBOARDS
from tests.grafana.conftest import ROOT, load

FOLDER = ROOT / "deploy" / "prometheus"
(GROUP,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
RULES = GROUP["rules"]
REDIS = [("StatefulSet", "redis"), ("Deployment", "redis")]
BOARDS = [load(path) for path in DASHBOARDS.glob("*.json")]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("test rules alerts_test.yml", marks=pytest.mark.slow),
        "check config prometheus.yml",
    ],
)
def test_promtool_accepts_the_rules_and_the_configuration(tool, words):
    """The rules' own tests; scrape configuration and rule files."""
    command = [tool("promtool"), *words.split()]
    run = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@cache
def checks() -> list:
    """Return what the rules' tests expect."""
    cases = yaml.load((FOLDER / "alerts_test.yml").read_text(), yaml.CSafeLoader)["tests"]
    return [check for case in cases for check in case["alert_rule_test"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_uses_existing_metrics_and_has_a_test(rule):
    """A renamed metric would silence it."""
    named = set(re.findall(r"\bfarm_\w+", rule["expr"]))
    bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named}
    assert bases <= set(CATALOGUE)
    assert named or 'up{job="provisioner"}' in rule["expr"]
    mine = [check["exp_alerts"] for check in checks() if check["alertname"] == rule["alert"]]
    assert any(mine), "it fires"
    assert not all(mine), "it can be quiet"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_summary_and_instructions(rule):
    """A summary, an existing dashboard, and a section of the page about alerts."""
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "dashboard", "runbook"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert notes["dashboard"].removeprefix("/d/") in {board["uid"] for board in BOARDS}
    assert notes["runbook"] == f"docs/how-to/alerts.md#{rule['alert'].lower()}"
    assert f"\n## {rule['alert']}\n" in (ROOT / "docs/how-to/alerts.md").read_text()


def test_a_deployed_redis_has_a_limit():
    """FarmRedisFilling is about maxmemory: well below where the container would be killed."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["redis"]
    manifests = yaml.safe_load_all((ROOT / "deploy/kubernetes/farm.yaml").read_text())
    (pod,) = (
        found["spec"]["template"]["spec"]["containers"][0]
        for found in manifests
        if found and (found["kind"], found["metadata"]["name"]) in REDIS
    )
    for command, allowed in (
        (compose["command"], compose["mem_limit"]),
        (pod["command"], pod["resources"]["limits"]["memory"]),
    ):
        words = command if isinstance(command, str) else " ".join(command)
        (most,) = re.findall(r"--maxmemory (\d+)mb", words)
        assert int(most) <= 0.75 * {"512m": 512, "1Gi": 1024}[allowed]
