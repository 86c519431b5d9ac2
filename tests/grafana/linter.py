"""What a dashboard must keep to, as Grafana's dashboard-linter has it for Prometheus, and more.

A rule yields a sentence for each thing that is wrong. Queries are examined as text: all matchers
are in braces, which the rule `farms` enforces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from grafana_foundation_sdk.models import units

from farm.metrics.catalogue import CATALOGUE, Metric
from tests.grafana.conftest import metrics_in, panels

Board = dict[str, Any]

UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and name[0] != "_"}
#: metrics that prometheus_client brings
PROCESS = {
    *("process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds")
}
#: counters that a new scheduler continues
CONTINUED = {"farm_jobs_total"}
#: what Prometheus itself reports of alerts: of every farm that it scrapes
ALERTS = {"alertname", "platform", "pool"}
#: labels that scraping and histograms add
ADDED = {"job", "instance", "le"}
CHOSEN = "${datasource}"
EVERY_SERIES = {
    "type": "query", "refresh": 2, "multi": True, "includeAll": True, "allValue": ".+",
}  # fmt: skip
HIDDEN = {"id": "custom.hideFrom", "value": {"legend": True, "tooltip": True, "viz": True}}

SELECTOR = re.compile(r"([a-zA-Z_:]\w*)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
COUNTER = re.compile(r"\w+_(?:total|bucket|count|sum)$")
OPTIONS = re.compile(r"label_values\((?:(\w+)(\{[^}]*\})?,\s*)?(\w+)\)")


def complaints(board: Board) -> list[str]:
    """Return all complaints of the rules, each after its rule's name."""
    found = [f"variables: {one}" for one in variables(board)]
    for panel in panels(board):
        found += [f"panel: {panel.get('title')}: {one}" for one in panel_rules(panel)]
        for target in panel["targets"]:
            for rule in QUERIES:
                wrong = rule(target["expr"], target, panel, board)
                found += [f"{rule.__name__}: {panel.get('title')}: {target['expr']}"] * wrong
    return found


def metric_of(name: str) -> Metric | None:
    """Return the catalogue's entry of a metric, or of the histogram that it belongs to."""
    return CATALOGUE.get(name) or CATALOGUE.get(re.sub(r"_(bucket|count|sum)$", "", name))


def variables(board: Board) -> Iterator[str]:
    """Sources, farms and backfilled runs are chosen among those of the shown time."""
    every = {variable["name"]: variable for variable in board["templating"]["list"]}
    source = every.get("datasource", {})
    if (source.get("label"), source.get("query")) != ("Data source", "prometheus"):
        yield "no data source to choose"
    for name in ("job", "instance"):
        found = every.get(name, {})
        if not {**EVERY_SERIES, "label": name.capitalize()}.items() <= found.items():
            yield f"{name}: {found}"
    for name, variable in every.items():
        if variable["type"] == "query":
            form = OPTIONS.fullmatch(variable["query"])
            metric = CATALOGUE.get(form[1]) if form else None
            known = form and metric and form[3] in {*metric.labels, *ADDED}
            if not known or variable["datasource"]["uid"] != CHOSEN or variable["refresh"] != 2:
                yield f"{name}: {variable['query']}"
    if board.get("editable") is not False:
        yield "editable, though the code is the source"


def panel_rules(panel: dict[str, Any]) -> Iterator[str]:
    """Named, described, with a known unit; stacked areas, and curves with their gaps."""
    defaults, targets = panel["fieldConfig"]["defaults"], panel["targets"]
    if {where.get("datasource", {}).get("uid") for where in (panel, *targets)} != {CHOSEN}:
        yield "asks another data source"
    if not panel.get("title") or not panel.get("description", "").endswith("."):
        yield "no title, or no sentence that describes it"
    places = {defaults.get("unit")}
    if panel["type"] == "heatmap":
        places.add(panel["options"]["yAxis"].get("unit"))
    if not places <= UNITS:
        yield f"a unit that Grafana does not know: {places}"
    if not defaults.get("noValue"):
        yield "no text where there is no data"
    letters = [target["refId"] for target in targets]
    if not letters or len(letters) != len(set(letters)):
        yield f"queries {letters}"
    if panel["type"] != "timeseries":
        return
    custom, legend = defaults["custom"], panel["options"]["legend"]
    stacked = custom.get("stacking", {}).get("mode", "none") != "none"
    if (custom["fillOpacity"] > 50, custom["lineWidth"] == 0) != (stacked, stacked):
        yield "what is stacked is filled, without outlines"
    hidden = [
        (one["matcher"]["id"], one["matcher"]["options"]["reducer"], one["properties"])
        for one in panel["fieldConfig"]["overrides"]
    ]
    omits = stacked or defaults["unit"] in ("ops", "cpm")
    if hidden != ([("byValue", "allIsZero", [HIDDEN])] if omits else []):
        yield f"series of zeros are hidden where they are stacked or rates: {hidden}"
    if custom["spanNulls"] is not False:
        yield "spans gaps"
    shown = (legend["showLegend"], legend["displayMode"], legend["placement"])
    if shown != (True, "list", "bottom"):  # Grafana wraps this one
        yield "not every series is named below it"


# --- queries: whether one breaks a rule -----------------------------------------------------------


def farms(expr: str, *_: Any) -> bool:
    """Every selector asks for the chosen farms; none is without braces."""
    chosen = [
        'job=~"$job"' in matchers and 'instance=~"$instance"' in matchers
        for name, matchers in SELECTOR.findall(expr)
        if name != "ALERTS"
    ]
    bare = re.search(r"\b(?:farm|process)_\w+", SELECTOR.sub("", expr))
    return (not chosen and "ALERTS{" not in expr) or not all(chosen) or bare is not None


def windows(expr: str, *_: Any) -> bool:
    """$__rate_interval; or the whole range, where a sum over it is meant."""
    calls = re.findall(r"(\w+)\([^()\[]*\[([^\]]+)\]", expr)
    return any(w != "$__rate_interval" and (c, w) != ("increase", "$__range") for c, w in calls)


def counters(expr: str, _: Any, panel: dict[str, Any], __: Board) -> bool:
    """A counter, and what a histogram counts, is inside rate or increase.

    Except a number that shows a total, of a count that a new scheduler continues.
    """
    rest = re.sub(r"\b(?:rate|irate|increase)\(\w+\{[^}]*\}\[[^\]]+\]\)", "", expr)
    found = {name for name, _ in SELECTOR.findall(rest) if COUNTER.fullmatch(name)}
    return bool(found - (CONTINUED if panel["type"] == "stat" else set()))


def histograms(expr: str, target: dict[str, Any], panel: dict[str, Any], _: Board) -> bool:
    """Buckets are for quantiles, or for a heatmap that separates them by `le`."""
    heat = panel["type"] == "heatmap"
    if "_bucket{" not in expr:
        return heat or "histogram_quantile" in expr
    if heat:
        form = (target.get("format"), target.get("legendFormat"))
        return form != ("heatmap", "{{le}}") or not expr.startswith("sum by (le) (increase(")
    return re.match(r"histogram_quantile\([\d.]+, sum by \(le", expr) is None


def labels(expr: str, target: dict[str, Any], *_: Any) -> bool:
    """Matchers, groupings and legends use labels that the metrics have."""
    known = set(ALERTS) if "ALERTS{" in expr else set[str]()
    for name, matched in metrics_in(expr).items():
        metric = metric_of(name)
        has = {*(metric.labels if metric else ()), *ADDED}
        known |= has
        if (metric is None and name not in PROCESS) or not matched <= has:
            return True
    grouped = {label for group in GROUPED.findall(expr) for label in re.findall(r"\w+", group)}
    shown = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
    return not grouped <= known or not shown <= grouped


def choices(expr: str, _: Any, panel: dict[str, Any], board: Board) -> bool:
    """A platform or pool that can be chosen is obeyed, or the panel says that it is not."""
    offered = {v["name"] for v in board["templating"]["list"]} & {"platform", "pool"}
    return any(
        (f"of all {label}s" in panel["description"]) == (f'{label}=~"${label}"' in matchers)
        for name, matchers in SELECTOR.findall(expr)
        if (metric := metric_of(name))
        for label in offered & set(metric.labels)
    )


QUERIES: tuple[Callable[..., bool], ...] = (farms, windows, counters, histograms, labels, choices)
