"""Print what a Prometheus Operator (kube-prometheus) needs to watch the farm.

    python deploy/kubernetes/monitoring.py | kubectl apply -f -

From the sources of the compose farm: a PodMonitor for each kind of pod, the alerts as a
PrometheusRule, and the dashboards as a ConfigMap that Grafana's sidecar finds by its label. Needs
PyYAML.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
#: the job that dashboards and alerts know -> the pods of farm.yaml and its companions
JOBS = {"scheduler": "scheduler", "provisioner": "provisioner", "builders": "builder"}
OPERATOR = "monitoring.coreos.com/v1"

Manifest = dict[str, Any]


def manifest(version: str, kind: str, name: str, labels: dict[str, str], **rest: Any) -> Manifest:
    """Return a manifest in the farm's namespace."""
    metadata = {"name": name, "namespace": "farm", "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def pod_monitor(job: str, app: str) -> Manifest:
    """Return what has these pods scraped, by the name that the dashboards know."""
    endpoint = {
        "port": "metrics",
        "interval": "15s",
        "relabelings": [{"targetLabel": "job", "replacement": job}],
    }
    spec = {"selector": {"matchLabels": {"app": app}}, "podMetricsEndpoints": [endpoint]}
    return manifest(OPERATOR, "PodMonitor", app, {"release": "kube-prometheus"}, spec=spec)


def rules() -> Manifest:
    """Return the alerts."""
    spec = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))
    return manifest(OPERATOR, "PrometheusRule", "farm", {"release": "kube-prometheus"}, spec=spec)


def dashboards() -> Manifest:
    """Return the dashboards; they take whatever data source Grafana has."""
    folder = ROOT / "grafana/dashboards"
    data = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
    return manifest("v1", "ConfigMap", "farm-dashboards", {"grafana_dashboard": "1"}, data=data)


def manifests() -> list[Manifest]:
    """Return all of it."""
    return [*(pod_monitor(job, app) for job, app in JOBS.items()), rules(), dashboards()]


if __name__ == "__main__":
    json.dump({"apiVersion": "v1", "kind": "List", "items": manifests()}, sys.stdout, indent=2)
