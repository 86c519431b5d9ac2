"""The rules of Grafana's dashboard-linter that concern Prometheus, and some more.

A rule yields a sentence for each thing that is wrong with a dashboard. Queries are examined as
text: all matchers are in braces, which the rule `selectors` enforces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from grafana_foundation_sdk.models import units

from farm.metrics.catalogue import CATALOGUE
from tests.grafana.conftest import metrics_in, panels

Board = dict[str, Any]
Rule = Callable[[Board], Iterator[str]]

UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and name[0] != "_"}
#: metrics that prometheus_client brings
PROCESS: dict[str, tuple[str, ...]] = {
    "process_cpu_seconds_total": (),
    "process_resident_memory_bytes": (),
    "process_start_time_seconds": (),
}
#: counters that a new scheduler continues
CONTINUED = {"farm_jobs_total"}
#: what Prometheus itself reports of alerts: of every farm that it scrapes
ALERTS = ("alertname", "platform", "pool")
#: labels that scraping and histograms add
ADDED = {"job", "instance", "le"}

SELECTOR = re.compile(r"([a-zA-Z_:]\w*)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
COUNTER = re.compile(r"\w+_(?:total|bucket|count|sum)$")


def complaints(board: Board) -> list[str]:
    """Return all complaints of the rules, each after its rule's name."""
    return [f"{name}: {found}" for name, rule in RULES.items() for found in rule(board)]


def targets(board: Board) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each panel with each of its targets."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield panel, target


def variables(board: Board, kind: str) -> list[dict[str, Any]]:
    """Return the variables of a type."""
    return [v for v in board["templating"]["list"] if v["type"] == kind]


# --- variables ------------------------------------------------------------------------------


def template_datasource(board: Board) -> Iterator[str]:
    """The data source can be chosen, and is named as the linter expects."""
    found = [(v["name"], v.get("label"), v["query"]) for v in variables(board, "datasource")]
    if found != [("datasource", "Data source", "prometheus")]:
        yield f"found {found}"


def template_job_and_instance(board: Board) -> Iterator[str]:
    """Several farms, and backfilled runs, can be distinguished."""
    for name in ("job", "instance"):
        wanted = {
            "type": "query", "label": name.capitalize(), "multi": True, "includeAll": True,
            "allValue": ".+",
        }  # fmt: skip
        found = next((v for v in board["templating"]["list"] if v["name"] == name), {})
        if {key: found.get(key) for key in wanted} != wanted:
            yield f"{name}: found {found}"


def template_label_promql(board: Board) -> Iterator[str]:
    """A variable's options are queried in a form that Grafana's Prometheus knows."""
    for variable in variables(board, "query"):
        form = re.fullmatch(r"label_values\((?:(\w+)(\{[^}]*\})?,\s*)?(\w+)\)", variable["query"])
        metric = CATALOGUE.get(form[1]) if form else None
        if form is None or metric is None or form[3] not in {*metric.labels, *ADDED}:
            yield f"{variable['name']}: {variable['query']}"
        elif variable["datasource"]["uid"] != "${datasource}":
            yield f"{variable['name']}: {variable['datasource']}"


def template_on_time_change_reload(board: Board) -> Iterator[str]:
    """A farm of last week is offered when the time range is last week."""
    for variable in variables(board, "query"):
        if variable.get("refresh") != 2:
            yield variable["name"]


# --- panels ---------------------------------------------------------------------------------


def panel_datasource(board: Board) -> Iterator[str]:
    """Panels and targets ask the chosen data source."""
    for panel in panels(board):
        for where in (panel, *panel["targets"]):
            if where.get("datasource", {}).get("uid") != "${datasource}":
                yield panel["title"]


def panel_title_description(board: Board) -> Iterator[str]:
    """A title, and a sentence that describes the panel."""
    for panel in panels(board):
        if not panel.get("title") or not panel.get("description", "").endswith("."):
            yield f"panel {panel['id']} {panel.get('title')!r}"


def panel_units(board: Board) -> Iterator[str]:
    """A unit that Grafana knows."""
    for panel in panels(board):
        places = [panel["fieldConfig"]["defaults"].get("unit")]
        if panel["type"] == "heatmap":
            places.append(panel["options"]["yAxis"].get("unit"))
        if not set(places) <= UNITS:
            yield f"{panel['title']}: {places}"


def panel_no_data(board: Board) -> Iterator[str]:
    """A text where there is no data (an additional rule)."""
    for panel in panels(board):
        if not panel["fieldConfig"]["defaults"].get("noValue"):
            yield panel["title"]


def panel_areas(board: Board) -> Iterator[str]:
    """What is stacked is filled, without outlines, and shows no series of zeros; nor do rates."""
    for panel in panels(board):
        if panel["type"] != "timeseries":
            continue
        defaults = panel["fieldConfig"]["defaults"]
        custom = defaults["custom"]
        hidden = [
            (one["matcher"]["id"], one["matcher"]["options"]["reducer"], one["properties"])
            for one in panel["fieldConfig"]["overrides"]
        ]
        everywhere = {"legend": True, "tooltip": True, "viz": True}
        zeros = ("byValue", "allIsZero", [{"id": "custom.hideFrom", "value": everywhere}])
        stacked = custom.get("stacking", {}).get("mode", "none") != "none"
        omits = stacked or defaults["unit"] in ("ops", "cpm")
        if hidden != ([zeros] if omits else []):
            yield f"{panel['title']}: hides {hidden}"
        if (custom["fillOpacity"] > 50, custom["lineWidth"] == 0) != (stacked, stacked):
            yield f"{panel['title']}: {custom}"


def panel_gaps(board: Board) -> Iterator[str]:
    """A curve is interrupted where there is no data, and every series is named below it."""
    for panel in panels(board):
        if panel["type"] == "timeseries":
            legend = panel["options"]["legend"]
            shown = (legend["showLegend"], legend["displayMode"], legend["placement"])
            if panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is not False:
                yield f"{panel['title']}: spans gaps"
            if shown != (True, "list", "bottom"):  # Grafana wraps this one
                yield f"{panel['title']}: {shown}"


def panel_no_targets(board: Board) -> Iterator[str]:
    """There are queries, each with its own letter."""
    for panel in panels(board):
        letters = [target["refId"] for target in panel["targets"]]
        if not letters or len(letters) != len(set(letters)):
            yield f"{panel['title']}: {letters}"


# --- targets --------------------------------------------------------------------------------


def target_job_and_instance(board: Board) -> Iterator[str]:
    """Every selector asks for the chosen farms; none is without braces."""
    for _, target in targets(board):
        expr = target["expr"]
        chosen = [
            'job=~"$job"' in matchers and 'instance=~"$instance"' in matchers
            for name, matchers in SELECTOR.findall(expr)
            if name != "ALERTS"
        ]
        bare = re.search(r"\b(?:farm|process)_\w+", SELECTOR.sub("", expr))
        if (not chosen and "ALERTS{" not in expr) or not all(chosen) or bare:
            yield expr


def target_rate_interval(board: Board) -> Iterator[str]:
    """$__rate_interval; or the whole range, where a sum over it is meant."""
    for _, target in targets(board):
        for call, window in re.findall(r"(\w+)\([^()\[]*\[([^\]]+)\]", target["expr"]):
            if window != "$__rate_interval" and (call, window) != ("increase", "$__range"):
                yield target["expr"]


def target_counter_agg(board: Board) -> Iterator[str]:
    """A counter, and what a histogram counts, is inside rate or increase.

    Except a number that shows a total, of a count that a new scheduler continues.
    """
    for panel, target in targets(board):
        rest = re.sub(r"\b(?:rate|irate|increase)\(\w+\{[^}]*\}\[[^\]]+\]\)", "", target["expr"])
        counters = {name for name, _ in SELECTOR.findall(rest) if COUNTER.fullmatch(name)}
        if counters - (CONTINUED if panel["type"] == "stat" else set()):
            yield target["expr"]


def target_histogram(board: Board) -> Iterator[str]:
    """Buckets are for quantiles, or for a heatmap that separates them by `le`."""
    for panel, target in targets(board):
        expr, heat = target["expr"], panel["type"] == "heatmap"
        if "_bucket{" in expr and heat:
            form = (target.get("format"), target.get("legendFormat"))
            well = form == ("heatmap", "{{le}}") and expr.startswith("sum by (le) (increase(")
        elif "_bucket{" in expr:
            well = re.match(r"histogram_quantile\([\d.]+, sum by \(le", expr) is not None
        else:
            well = not heat and "histogram_quantile" not in expr
        if not well:
            yield expr


def target_labels(board: Board) -> Iterator[str]:
    """Matchers, groupings and legends use labels that the metrics have."""
    for _, target in targets(board):
        expr = target["expr"]
        known = {*ALERTS} if "ALERTS{" in expr else set[str]()
        for name, labels in metrics_in(expr).items():
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            metric = CATALOGUE.get(name) or CATALOGUE.get(base)
            if metric is None and name not in PROCESS:
                yield f"no metric {name}: {expr}"
                continue
            has = {*(PROCESS[name] if metric is None else metric.labels), *ADDED}
            known |= has
            if not labels <= has:
                yield f"{name} has no {labels - has}: {expr}"
        grouped = {label for group in GROUPED.findall(expr) for label in re.findall(r"\w+", group)}
        shown = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
        if not grouped <= known or not shown <= grouped:
            yield f"grouped by {grouped}, shown {shown}: {expr}"


def target_choices(board: Board) -> Iterator[str]:
    """A platform or pool that can be chosen is obeyed, or the panel says that it is not."""
    chosen = {v["name"] for v in variables(board, "query")} & {"platform", "pool"}
    for panel, target in targets(board):
        for name, matchers in SELECTOR.findall(target["expr"]):
            metric = CATALOGUE.get(re.sub(r"_(bucket|count|sum)$", "", name)) or CATALOGUE.get(name)
            for label in chosen & set(metric.labels if metric else ()):
                said = f"of all {label}s" in panel["description"]
                if said == (f'{label}=~"${label}"' in matchers):
                    yield f"{panel['title']}: {label}: {target['expr']}"


def uneditable_dashboard(board: Board) -> Iterator[str]:
    """The code is the source."""
    if board.get("editable") is not False:
        yield "editable"


RULES: dict[str, Rule] = {
    "template-datasource": template_datasource,
    "template-job, template-instance": template_job_and_instance,
    "template-label-promql": template_label_promql,
    "template-on-time-change-reload": template_on_time_change_reload,
    "panel-datasource": panel_datasource,
    "panel-title-description": panel_title_description,
    "panel-units": panel_units,
    "panel-no-data": panel_no_data,
    "panel-no-targets": panel_no_targets,
    "panel-areas": panel_areas,
    "panel-gaps": panel_gaps,
    "target-job, target-instance": target_job_and_instance,
    "target-rate-interval": target_rate_interval,
    "target-counter-agg": target_counter_agg,
    "target-histogram": target_histogram,
    "target-labels": target_labels,
    "target-choices": target_choices,
    "uneditable-dashboard": uneditable_dashboard,
}
"""Rule -> how it is checked. target-promql is left to promtool; logql does not concern us."""
