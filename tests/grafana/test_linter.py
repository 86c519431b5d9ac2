"""The dashboards keep the linter's rules, and each rule finds what breaks it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.grafana.conftest import FOLDER, load, panels
from tests.grafana.linter import RULES, complaints

Board = dict[str, Any]

WAITING = "farm_job_waiting_seconds"
FAILED = 'sum(farm_jobs_total{@, outcome="failed"})'


def test_the_dashboards_keep_every_rule(board):
    """Grafana's own conventions, checked without Grafana."""
    assert complaints(board) == []


def variable(board: Board, name: str) -> dict[str, Any]:
    """Return a variable of the dashboard."""
    return next(v for v in board["templating"]["list"] if v["name"] == name)


def first(board: Board, kind: str = "timeseries") -> dict[str, Any]:
    """Return the first panel of a kind."""
    return next(panel for panel in panels(board) if panel["type"] == kind)


def asks(expr: str, kind: str = "timeseries") -> Callable[[Board], None]:
    """Return a change that gives the first panel of a kind another query."""
    farms = 'job=~"$job", instance=~"$instance"'

    def spoil(board: Board) -> None:
        first(board, kind)["targets"][0]["expr"] = expr.replace("@", farms)

    return spoil


SPOILT: list[tuple[str, Callable[[Board], object]]] = [
    ("template-datasource", lambda b: variable(b, "datasource").update(label="Source")),
    ("template-job, template-instance", lambda b: variable(b, "job").update(multi=False)),
    ("template-job, template-instance", lambda b: variable(b, "instance").update(name="other")),
    ("template-label-promql", lambda b: variable(b, "job").update(query="label_values(up, job)")),
    ("template-label-promql", lambda b: variable(b, "job").update(query="jobs()")),
    ("template-on-time-change-reload", lambda b: variable(b, "platform").update(refresh=1)),
    ("panel-datasource", lambda b: first(b)["datasource"].update(uid="farm-prometheus")),
    ("panel-datasource", lambda b: first(b)["targets"][0]["datasource"].update(uid="other")),
    ("panel-title-description", lambda b: first(b).update(description="")),
    ("panel-units", lambda b: first(b)["fieldConfig"]["defaults"].update(unit="seconds")),
    ("panel-units", lambda b: first(b, "heatmap")["options"]["yAxis"].pop("unit")),
    ("panel-no-data", lambda b: first(b)["fieldConfig"]["defaults"].pop("noValue")),
    ("panel-no-targets", lambda b: first(b)["targets"].clear()),
    ("panel-areas", lambda b: first(b)["fieldConfig"]["overrides"].clear()),
    ("panel-areas", lambda b: first(b)["fieldConfig"]["defaults"]["custom"].update(lineWidth=1)),
    ("panel-areas", lambda b: first(b)["fieldConfig"]["defaults"]["custom"].pop("stacking")),
    ("panel-gaps", lambda b: first(b)["fieldConfig"]["defaults"]["custom"].update(spanNulls=True)),
    ("panel-gaps", lambda b: first(b)["options"]["legend"].update(showLegend=False)),
    ("target-job, target-instance", asks("sum(farm_queue_depth)")),
    ("target-job, target-instance", asks("farm_queue_depth{@} + farm_queue_depth")),
    ("target-job, target-instance", asks('sum(farm_queue_depth{job=~"$job"})')),
    ("target-rate-interval", asks("sum(rate(farm_jobs_total{@}[5m]))")),
    ("target-rate-interval", asks("sum(rate(farm_jobs_total{@}[$__range]))")),
    ("target-counter-agg", asks("sum(farm_jobs_total{@})")),
    ("target-counter-agg", asks(f"sum({WAITING}_count{{@}})")),
    ("target-counter-agg", asks(FAILED)),
    ("target-counter-agg", asks("sum(farm_jobs_submitted_total{@})", "stat")),
    ("target-histogram", asks(f"sum by (le) (rate({WAITING}_bucket{{@}}[$__rate_interval]))")),
    ("target-histogram", lambda b: first(b, "heatmap")["targets"][0].update(format="time_series")),
    ("target-labels", asks('sum(farm_queue_depth{@, pool="a"})')),
    ("target-labels", asks("sum by (pool) (farm_queue_depth{@})")),
    ("target-labels", asks("sum(farm_queue_length{@})")),
    ("target-labels", lambda b: first(b)["targets"][0].update(legendFormat="{{pool}}")),
    ("target-choices", asks("sum(farm_queue_depth{@})")),
    ("target-choices", asks(f"sum(rate({WAITING}_count{{@}}[5m]))")),
    ("uneditable-dashboard", lambda b: b.update(editable=True)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "spoil"),
    SPOILT,
    ids=[f"{n}-{rule.split(',')[0]}" for n, (rule, _) in enumerate(SPOILT)],
)
def test_each_rule_finds_what_breaks_it(rule, spoil):
    """A rule that never fails would protect nothing."""
    board = copy.deepcopy(load(FOLDER / "farm.json"))
    spoil(board)
    assert [found for found in complaints(board) if found.startswith(f"{rule}: ")]


def test_no_rule_is_untested():
    """A new rule comes with an example that breaks it."""
    assert {rule for rule, _ in SPOILT} == set(RULES)
