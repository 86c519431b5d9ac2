"""Draw the dashboards: ``python docs/dashboard_pictures.py URL [MINUTES]``.

Asks the Prometheus at URL for every panel of ``grafana/dashboards/`` over the last MINUTES (15), as
Grafana would, and writes ``docs/figures/dashboard-NAME.svg``: not Grafana's own picture, but its
data and places.
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
from itertools import cycle
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIGURES = HERE / "figures"
#: pixels of a cell of Grafana's grid, and points of a curve
CELL, LINE, POINTS = 46, 30, 100
#: pixels of a letter and of a line of a legend
LETTER, ROW = 6, 14
#: distinguishable without colour vision (Okabe and Ito)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#999999")
NAMED = {"text": "#222222", "green": "#1b7a3d", "orange": "#b65c00", "red": "#c4162a"}

Json = dict[str, Any]
Named = list[tuple[str, list[tuple[float, float]]]]
#: instant, and the two values between which a series is drawn
Band = list[tuple[float, float, float]]


class Prometheus:
    """A Prometheus server, and the time range."""

    def __init__(self, url: str, minutes: float) -> None:
        self._url = url
        self.end = time.time()
        self.start = self.end - 60 * minutes
        step = max(5.0, (self.end - self.start) / POINTS)
        # Grafana's interval for a source that is scraped every 5 s
        self._windows = {"$__rate_interval": max(step + 5, 20), "$__range": 60 * minutes}
        self.step = step

    def ask(self, target: Json) -> Named:
        """Return the series of a target by their legends, without values that are no numbers."""
        expr = target["expr"].replace("$price", "0.10")
        for name, seconds in self._windows.items():
            expr = expr.replace(name, f"{math.ceil(seconds)}s")
        for name in ("$job", "$instance", "$pool", "$platform"):
            expr = expr.replace(name, ".+")
        words: Json = {"query": expr, "time": self.end}
        if target["range"]:
            words = {"query": expr, "start": self.start, "end": self.end, "step": self.step}
        kind = "query_range" if target["range"] else "query"
        url = f"{self._url}/api/v1/{kind}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
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
        return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"
    if unit == "currencyUSD":
        return f"${value:,.2f}"
    if unit == "s" and 0 < value < 1:
        return f"{1000 * value:.3g} ms"
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
    """Yield a frame, the curves (or areas, one upon the other) and, below, all of their names."""
    width, height = size(panel)
    defaults = panel["fieldConfig"]["defaults"]
    if panel["fieldConfig"]["overrides"]:  # series that are 0 all the time are left out
        series = [(name, values) for name, values in series if any(v for _, v in values)]
    areas = "stacking" in defaults["custom"]
    bands = stacked(series, on_each_other=areas)
    tops = (to for _, band in bands for _, _, to in band)
    top = defaults.get("max") or max(tops, default=0.0) or 1.0
    left, right, high = 60, width - 10, 28
    names = list(wrapped([name for name, _ in series], right - left))
    rows = names[-1][0] + 1 if names else 0
    low = height - 24 - ROW * rows
    across = (right - left) / (prometheus.end - prometheus.start)
    for share in (0, 0.5, 1):
        y = low - share * (low - high)
        yield f'<path d="M{left} {y:.0f}H{right}" stroke="#e4e4e4"/>'
        label = number(share * top, defaults["unit"])
        yield text(left - 4, y + 4, label, text_anchor="end", fill="#666")

    def place(at: float, value: float) -> str:
        x = left + (at - prometheus.start) * across
        return f"{x:.0f},{low - min(value / top, 1.05) * (low - high):.0f}"

    for (_, band), (row, x, name), colour in zip(bands, names, cycle(COLOURS), strict=False):
        for part in unbroken(band, 1.5 * prometheus.step):
            way = " ".join(place(at, to) for at, _, to in part)
            if areas:
                way += " " + " ".join(place(at, fro) for at, fro, _ in reversed(part))
                yield f'<polygon points="{way}" fill="{colour}" fill-opacity="0.7"/>'
            else:
                way = f"{way} {way}" if len(part) == 1 else way  # a dot
                yield (
                    f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.5" '
                    'stroke-linecap="round"/>'
                )
        mark = "■" if areas else "—"
        yield text(left + x, low + 30 + ROW * row, f"{mark} {name}" if name else "", fill=colour)
    minutes = (prometheus.end - prometheus.start) / 60
    yield text(left, low + 14, f"{minutes:.0f} min ago", fill="#666")
    yield text(right, low + 14, "now", text_anchor="end", fill="#666")


def stacked(series: Named, *, on_each_other: bool) -> list[tuple[str, Band]]:
    """Return between which values each series is drawn: from 0, or on top of those before it."""
    below: dict[float, float] = {}
    found: list[tuple[str, Band]] = []
    for name, values in series:
        band = [(at, below.get(at, 0.0), below.get(at, 0.0) + value) for at, value in values]
        if on_each_other:
            below.update((at, to) for at, _, to in band)
        found.append((name, band))
    return found


def unbroken(band: Band, longest: float) -> list[Band]:
    """Return the parts of a band between which there is no data for longer than this (seconds)."""
    parts: list[Band] = []
    for point in band:
        if not parts or point[0] - parts[-1][-1][0] > longest:
            parts.append([])
        parts[-1].append(point)
    return parts


def wrapped(names: list[str], width: float) -> Iterator[tuple[int, int, str]]:
    """Yield the row of each name in a legend so wide, where it begins in the row, and the name."""
    row = x = 0
    for name in names:
        room = LETTER * len(name) + 26
        if x and x + room > width:
            row, x = row + 1, 0
        yield row, x, name
        x += room


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
        shown = name if name == "+Inf" else number(float(name), "s")
        yield text(56, y + rise, shown, text_anchor="end", fill="#666", font_size=9)
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


def main(url: str, minutes: str = "15") -> None:
    """Write a picture of each dashboard."""
    prometheus = Prometheus(url, float(minutes))
    for path in sorted((HERE.parent / "grafana" / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        place = FIGURES / f"dashboard-{path.stem}.svg"
        place.write_text(picture(board, prometheus), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
