"""Draw the dashboards: ``python grafana/pictures.py URL [MINUTES]``.

Asks the Prometheus at URL for every panel of ``dashboards/`` over the last MINUTES (10), as Grafana
would, and writes ``docs/figures/dashboard-NAME.svg``: not Grafana's own picture, but its data and
places.
"""

from __future__ import annotations

import json
import math
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES = HERE.parent / "docs" / "figures"
#: pixels of a cell of Grafana's grid, and points of a curve
CELL, LINE, POINTS = 46, 30, 100
#: distinguishable without colour vision (Okabe and Ito)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#999999")
NAMED = {"text": "#222222", "green": "#1b7a3d", "orange": "#b65c00", "red": "#c4162a"}

Json = dict[str, Any]
Named = list[tuple[str, list[tuple[float, float]]]]


class Prometheus:
    """A Prometheus server, and the time range."""

    def __init__(self, url: str, minutes: float) -> None:
        self._url = url
        self.end = time.time()
        self.start = self.end - 60 * minutes
        step = max(5.0, (self.end - self.start) / POINTS)
        # Grafana's interval for a source that is scraped every 5 s
        self._windows = {"$__rate_interval": max(step + 5, 20), "$__range": 60 * minutes}
        self._step = step

    def ask(self, target: Json) -> Named:
        """Return the series of a target by their legends, without values that are no numbers."""
        expr = target["expr"].replace("$price", "0.10")
        for name, seconds in self._windows.items():
            expr = expr.replace(name, f"{math.ceil(seconds)}s")
        for name in ("$job", "$instance", "$pool", "$platform"):
            expr = expr.replace(name, ".+")
        words: Json = {"query": expr, "time": self.end}
        if target["range"]:
            words = {"query": expr, "start": self.start, "end": self.end, "step": self._step}
        kind = "query_range" if target["range"] else "query"
        url = f"{self._url}/api/v1/{kind}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - the viewer's own
            found = json.load(answer)["data"]["result"]
        return [(legend(target, one["metric"]), points(one)) for one in found]


def text(x: float, y: float, words: str, **more: object) -> str:
    """Return words at a place; ``more``: attributes, with _ for -."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.0f}" y="{y:.0f}"{rest}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, **more: object) -> str:
    """Return a rectangle."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return f'<rect x="{x:.0f}" y="{y:.0f}" {size}{rest}/>'


def legend(target: Json, labels: Json) -> str:
    """Return Grafana's text beside a series."""
    shown: str = target.get("legendFormat", "")
    for name in ("alertname", "platform", "pool", *labels):
        shown = shown.replace(f"{{{{{name}}}}}", labels.get(name, ""))
    return shown.strip()


def points(series: Json) -> list[tuple[float, float]]:
    """Return instants and numbers."""
    found = series.get("values") or [series["value"]]
    return [(float(at), float(v)) for at, v in found if math.isfinite(float(v))]


def number(value: float, unit: str) -> str:
    """Return a number with its unit, as shown to a reader."""
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    if unit == "s" and value >= 60:
        minutes = round(value / 60)
        return f"{minutes} min" if minutes < 180 else f"{minutes / 60:.1f} h"
    if unit == "bytes":
        return f"{value / 2**20:.0f} MiB"
    suffix = {"s": " s", "ops": "/s", "cpm": "/min", "h": " h"}.get(unit, "")
    return f"{value:.3g}{suffix}"


def colour_of(panel: Json, value: float) -> str:
    """Return the colour of the highest threshold that the value has reached."""
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    reached = [s["color"] for s in steps if s["value"] is None or value >= s["value"]]
    return NAMED[reached[-1]]


def drawn(panel: Json, prometheus: Prometheus) -> Iterator[str]:
    """Yield the elements of one panel, from its upper left corner."""
    width, height = size(panel)
    yield box(0, 0, width, height, rx=3, fill="#fff", stroke="#ccc")
    yield text(8, 16, panel["title"], font_weight="bold")
    series = [one for target in panel["targets"] for one in prometheus.ask(target) if one[1]]
    if not series:
        nothing = panel["fieldConfig"]["defaults"]["noValue"]
        yield text(8, height / 2, nothing, fill="#666")
    elif panel["type"] == "timeseries":
        yield from curves(panel, series, prometheus)
    elif panel["type"] == "heatmap":
        yield from heat(panel, series, prometheus)
    else:
        yield from numbers(panel, series)


def size(panel: Json) -> tuple[int, int]:
    """Return width and height in pixels, with a gap to the neighbours."""
    place = panel["gridPos"]
    return place["w"] * CELL - 6, place["h"] * LINE - 6


def numbers(panel: Json, series: Named) -> Iterator[str]:
    """Yield numbers side by side (stat), or a bar and a number each (bar gauge)."""
    width, height = size(panel)
    defaults = panel["fieldConfig"]["defaults"]
    words = {
        k: v["text"] for one in defaults.get("mappings", ()) for k, v in one["options"].items()
    }
    most = max(values[-1][1] for _, values in series) or 1
    for place, (name, values) in enumerate(series):
        value = values[-1][1]
        shown = words.get(f"{value:g}") or number(value, defaults["unit"])
        if panel["type"] == "bargauge":
            y = 34 + place * 22
            yield box(120, y - 11, (width - 220) * value / most, 14, fill="#8fb8d8")
            yield text(8, y, name)
            yield text(width - 90, y, shown)
        else:
            x, colour = 8 + place * width / len(series), colour_of(panel, value)
            named = f"{name}: {shown}" if name else shown
            yield text(x, height / 2 + 18, named, font_size=22, fill=colour)


def curves(panel: Json, series: Named, prometheus: Prometheus) -> Iterator[str]:
    """Yield a frame, the curves (one upon the other where they are stacked) and their names."""
    width, height = size(panel)
    defaults = panel["fieldConfig"]["defaults"]
    if "stacking" in defaults.get("custom", {}):
        series = stacked(series)
    top = defaults.get("max") or max(v for _, values in series for _, v in values) or 1.0
    left, right, low, high = 60, width - 10, height - 44, 28
    across = (right - left) / (prometheus.end - prometheus.start)
    for share in (0, 0.5, 1):
        y = low - share * (low - high)
        yield f'<path d="M{left} {y:.0f}H{right}" stroke="#e4e4e4"/>'
        label = number(share * top, defaults["unit"])
        yield text(left - 4, y + 4, label, text_anchor="end", fill="#666")
    beside = left
    for place, (name, values) in enumerate(series):
        colour = COLOURS[place % len(COLOURS)]
        places = (
            (left + (at - prometheus.start) * across, low - min(v / top, 1.05) * (low - high))
            for at, v in values
        )
        way = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
        yield f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        if name and beside < width - 7 * len(name):
            yield text(beside, height - 10, f"— {name}", fill=colour)
            beside += 7 * len(name) + 28
    minutes = (prometheus.end - prometheus.start) / 60
    yield text(left, low + 14, f"{minutes:.0f} min ago", fill="#666")
    yield text(right, low + 14, "now", text_anchor="end", fill="#666")


def stacked(series: Named) -> Named:
    """Return each series on top of those before it."""
    below: dict[float, float] = {}
    found: Named = []
    for name, values in series:
        for at, value in values:
            below[at] = below.get(at, 0.0) + value
        found.append((name, [(at, below[at]) for at, _ in values]))
    return found


def heat(panel: Json, series: Named, prometheus: Prometheus) -> Iterator[str]:
    """Yield a cell for each bucket and instant, the darker the more; buckets are cumulative."""
    width, height = size(panel)
    rows = sorted(series, key=lambda one: float(one[0]))
    rise = (height - 60) / len(rows)
    across = (width - 80) / (prometheus.end - prometheus.start)
    before: dict[float, float] = {}
    most = max(v for _, values in rows for _, v in values) or 1.0
    for place, (name, values) in enumerate(rows):
        y = height - 30 - (place + 1) * rise
        yield text(56, y + rise, name, text_anchor="end", fill="#666", font_size=9)
        for at, total in values:
            count, before[at] = total - before.get(at, 0.0), total
            if count > 0:
                x, dark = 60 + (at - prometheus.start) * across, math.sqrt(count / most)
                yield box(x, y, 7, rise, fill="#d55e00", opacity=round(dark, 2))


def picture(board: Json, prometheus: Prometheus) -> str:
    """Return a dashboard as SVG."""
    parts = [text(4, 22, board["title"], font_size=18)]
    bottom = 0
    for panel in board["panels"]:
        place = panel["gridPos"]
        x, y = place["x"] * CELL + 3, 34 + place["y"] * LINE
        bottom = max(bottom, y + place["h"] * LINE)
        if panel["type"] == "row":
            parts.append(text(x, y + 20, panel["title"], font_size=14))
        else:
            inside = "\n".join(drawn(panel, prometheus))
            parts.append(f'<g transform="translate({x} {y})">{inside}</g>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * CELL} {bottom}" '
        'font-family="sans-serif" font-size="11">'
    )
    ground = box(0, 0, 24 * CELL, bottom, fill="#f4f5f5")
    return "\n".join([head, ground, *parts, "</svg>\n"])


def main(url: str, minutes: str = "10") -> None:
    """Write a picture of each dashboard."""
    prometheus = Prometheus(url, float(minutes))
    for path in sorted((HERE / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        place = FIGURES / f"dashboard-{path.stem}.svg"
        place.write_text(picture(board, prometheus), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
