"""What the tests of the dashboards share: the files, and their queries in Prometheus' form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "grafana" / "dashboards"
#: of what is shown: every kind of series
AMD64 = {"platform": {"processor": "amd64"}}
POOL = AMD64 | {
    "name": "linux",
    "slots": 2,
    "boot_time": "1m",
    "contention": {"slowdown": "thesis"},
}
TEAMS = {"team": {"red": 2, "blue": 1}, "build": ["a", "b"]}
ARRIVALS = AMD64 | {"heavy": {"probability": 0.3}, "fails": 0.1, "attributes": TEAMS}
SCHEDULING = {"fair_share": ["team", "build"], "stickiness": ["0s", "1m"]}
#: Grafana's values for its variables
VALUES = {
    "$__rate_interval": "5m",
    "$__interval": "1m",
    "$__range": "1h",
    "$job": ".+",
    "$instance": ".+",
    "$pool": ".+",
    "$platform": ".+",
    "$price": "0.10",
}


def load(path: Path) -> dict[str, Any]:
    """Return a dashboard."""
    return json.loads(path.read_text(encoding="utf-8"))


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a dashboard's panels, without rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def plain(expr: str, **values: str) -> str:
    """Return the query with Grafana's variables filled in."""
    for name, value in {**VALUES, **values}.items():
        expr = expr.replace(name, value)
    assert "$" not in expr, expr
    return expr


def intervals(start: float, end: float, scraped: float) -> tuple[float, dict[str, str]]:
    """Return Grafana's step for a panel 1000 pixels wide, and its variables.

    ``scraped`` is the data source's scrape interval; all in seconds.
    """
    step = max(math.ceil((end - start) / 1000), scraped)
    rate = max(step + scraped, 4 * scraped)
    values = {"$__rate_interval": rate, "$__interval": step, "$__range": end - start}
    return step, {name: f"{math.ceil(value)}s" for name, value in values.items()}


def metrics_in(expr: str) -> dict[str, set[str]]:
    """Return the metrics that a query names, with the labels that it matches."""
    found: dict[str, set[str]] = {}
    for name, matchers in re.findall(r"([a-z_]\w*)\{([^}]*)\}", expr):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!=|=)", matchers))
    return found


@pytest.fixture(params=sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def board(request) -> dict[str, Any]:
    """Each dashboard in turn."""
    return load(request.param)


@pytest.fixture
def queries() -> Callable[[], list[tuple[str, str]]]:
    """Return (dashboard / panel, query) of all dashboards."""

    def collect() -> list[tuple[str, str]]:
        return [
            (f"{path.stem} / {panel['title']}", target["expr"])
            for path in sorted(FOLDER.glob("*.json"))
            for panel in panels(load(path))
            for target in panel["targets"]
        ]

    return collect
