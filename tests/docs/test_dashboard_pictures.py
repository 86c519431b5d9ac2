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
    """Has one rising series for every query, from 0 to 1 in a minute; or what it is given."""

    start, end, step = 0.0, 60.0, 30.0

    def __init__(self, series: pictures.Named | None = None) -> None:
        self._series = series

    def ask(self, target: dict[str, Any]) -> pictures.Named:
        name = "5" if target.get("format") == "heatmap" else "a"
        return self._series or [(name, [(0.0, 0.0), (30.0, 0.25), (60.0, 1.0)])]


def titled(board: str, title: str) -> dict[str, Any]:
    """Return a panel."""
    return next(p for p in load(FOLDER / f"{board}.json")["panels"] if p["title"] == title)


def drawn(panel: dict[str, Any], *series: tuple[str, list[tuple[float, float]]]) -> ET.Element:
    """Return the picture of a panel with one query, which has these series."""
    one = {**panel, "targets": panel["targets"][:1]}
    parts = pictures.drawn(one, FakePrometheus(list(series)))
    return ET.fromstring(f"<svg>{''.join(parts)}</svg>")


def points(element: ET.Element) -> list[tuple[float, float]]:
    """Return the corners of an area, or the points of a curve."""
    pairs = (pair.split(",") for pair in element.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def texts(svg: str) -> list[str]:
    """Return the texts in a picture."""
    return [one.text or "" for one in ET.fromstring(svg).iter() if one.tag.endswith("text")]


@pytest.mark.parametrize("name", NAMES)
def test_the_pictures_in_the_docs_show_every_panel(name: str):
    """After changing a dashboard run: python docs/dashboard_pictures.py URL."""
    svg = (ROOT / f"docs/figures/dashboard-{name}.svg").read_text(encoding="utf-8")
    wanted = [panel["title"] for panel in load(FOLDER / f"{name}.json")["panels"]]
    assert [text for text in texts(svg) if text in wanted] == wanted


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_panel_is_drawn(name: str):
    """Well-formed, with all titles, and curves that rise as their series do."""
    svg = pictures.picture(load(FOLDER / f"{name}.json"), FakePrometheus())
    for panel in load(FOLDER / f"{name}.json")["panels"]:
        assert escape(panel["title"]) in svg
    (first, *_) = (one for one in ET.fromstring(svg).iter() if one.tag.endswith("polyline"))
    heights = [y for _, y in points(first)]
    assert heights[0] > heights[1] > heights[2]


def test_stacked_series_are_areas_and_those_of_zeros_are_left_out():
    """As bare lines "failed" ran at 5 to 7 while none had failed."""
    panel = titled("builders", "Builders by state")
    always = [(0.0, 4.0), (30.0, 4.0), (60.0, 4.0)]
    found = drawn(
        panel,
        ("building", always),
        ("failed", [(at, 0.0) for at, _ in always]),
        ("idle", [(0.0, 0.0), (30.0, 0.0), (60.0, 2.0)]),
    )
    assert found.findall("polyline") == []
    building, idle = map(points, found.findall("polygon"))
    assert "failed" not in ET.tostring(found, encoding="unicode")
    assert idle[3:] == building[2::-1], "the lower edge of the upper area"
    assert idle[:2] == building[:2], "an area of height 0 cannot be seen"
    assert idle[2][1] < building[2][1]


def test_curves_are_interrupted_where_there_is_no_data():
    """A line through the time in which no scheduler was there would be made up."""
    values = [(at, 1.0) for at in (0.0, 5.0, 10.0, 40.0, 45.0)]
    for title, kind in (("Response time", "polyline"), ("Queue depth", "polygon")):
        panel = titled("farm", title)
        with_gap = FakePrometheus([("a", values)])
        with_gap.step = 5.0
        parts = pictures.drawn({**panel, "targets": panel["targets"][:1]}, with_gap)
        found = ET.fromstring(f"<svg>{''.join(parts)}</svg>").findall(kind)
        assert [len(points(one)) for one in found] in ([3, 2], [6, 4])


def test_every_series_is_named_within_the_panel():
    """Legends were cut at the panel's edge: they are wrapped, above its lower edge."""
    names = [f"a kind of event, {n}" for n in range(14)]
    panel = titled("scheduler", "Events")
    found = drawn(panel, *((name, [(0.0, 1.0), (30.0, 2.0)]) for name in names))
    legend = [one for one in found.findall("text") if (one.text or "").startswith("— ")]
    assert [(one.text or "").removeprefix("— ") for one in legend] == names
    width, height = pictures.size(panel)
    for one in legend:
        assert float(one.attrib["x"]) + pictures.LETTER * len(one.text or "") <= width
        assert float(one.attrib["y"]) <= height
    assert len({(one.attrib["x"], one.attrib["y"]) for one in legend}) == len(names)
    lowest = max(y for line in found.findall("polyline") for _, y in points(line))
    assert lowest < min(float(one.attrib["y"]) - 10 for one in legend)


def test_a_number_has_the_colour_of_the_level_that_it_has_reached():
    """Red only from where the panel says so."""
    panel = titled("farm", "Oldest waiting job")
    found = [pictures.colour_of(panel, value) for value in (0.0, 1800.0, 7200.0)]
    assert found == [pictures.NAMED[name] for name in ("green", "orange", "red")]
