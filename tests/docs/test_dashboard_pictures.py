"""Pictures of the dashboards: drawn from data, and current in shape."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import escape
from typing import Any

import pytest

from docs import dashboard_pictures as pictures
from tests.grafana.conftest import FOLDER, ROOT, load

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


class FakePrometheus:
    """Has one rising series for every query, from 0 to 1 in a minute."""

    start, end, step = 0.0, 60.0, 30.0

    def ask(self, target: dict[str, Any]) -> pictures.Named:
        name = "5" if target.get("format") == "heatmap" else "a"
        return [(name, [(0.0, 0.0), (30.0, 0.25), (60.0, 1.0)])]


def texts(svg: str) -> list[str]:
    """Return the texts in a picture."""
    return [one.text or "" for one in ET.fromstring(svg).iter() if one.tag.endswith("text")]


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_is_drawn_and_in_the_docs(name: str):
    """Well-formed, with all titles, and curves that rise as their series do.

    After changing a dashboard run: python docs/dashboard_pictures.py URL.
    """
    dashboard = load(FOLDER / f"{name}.json")
    wanted = [panel["title"] for panel in dashboard["panels"]]
    kept = (ROOT / f"docs/figures/dashboard-{name}.svg").read_text(encoding="utf-8")
    assert [text for text in texts(kept) if text in wanted] == wanted
    svg = pictures.picture(dashboard, FakePrometheus())
    assert [title for title in wanted if escape(title) not in svg] == []
    (first, *_) = (one for one in ET.fromstring(svg).iter() if one.tag.endswith("polyline"))
    heights = [float(pair.split(",")[1]) for pair in first.attrib["points"].split()]
    assert heights[0] > heights[1] > heights[2]
