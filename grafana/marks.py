"""What is marked in every panel: alerts that fire, schedulers that began anew or took over."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from variables import SOURCE, chosen

ALERTS = 'ALERTS{alertstate="firing", alertname=~"Farm.+"}'
STARTS = (
    "changes(process_start_time_seconds{@}[$__rate_interval]) > 0 and on (job, instance)"
    " farm_scheduler_leader{@} or changes(farm_scheduler_leader{@}[$__rate_interval]) > 0"
)

FORMATS = {
    "Alerts": {
        "titleFormat": "{{alertname}}",
        "textFormat": "{{platform}} {{pool}}",
        "step": "15s",
    },
    "Scheduler starts": {
        "titleFormat": "scheduler began, or took over",
        "textFormat": "{{instance}}",
        "step": "15s",
    },
}
"""Name -> what Grafana's data source for Prometheus shows of it (not in the dashboard's schema)."""


def marks() -> list[dashboard.AnnotationQuery]:
    """Return the marks; the viewer can switch them off."""
    return [_mark("Alerts", "red", ALERTS), _mark("Scheduler starts", "blue", STARTS)]


def _mark(name: str, color: str, expr: str) -> dashboard.AnnotationQuery:
    mark = dashboard.AnnotationQuery().name(name).icon_color(color).datasource(SOURCE)
    return mark.enable(True).expr(chosen(expr))
