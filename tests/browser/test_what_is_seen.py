"""Every page and picture that a command writes, as its reader sees it: pixels, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import farm
from farm.app.report import follow_run
from farm.cli.main import app
from farm.records.bundle import write_bundle
from farm.results.figures.line_charts import Figure, write_figures
from farm.results.run_directory import META
from tests.fixtures.attempts import MONDAY, bundle_of, served
from tests.fixtures.chromium import Chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]

#: of text against its ground, as WCAG 2 asks for (AA)
LEAST_CONTRAST = 4.5
#: levels of red, green and blue that make a pixel one in colour, not a grey one
COLOURED = 0.12

#: of every word that is shown: itself, its colour, and where it is on the page
TEXTS = """[...document.querySelectorAll('*')].flatMap(one => {
    const own = [...one.childNodes].filter(node => node.nodeType === 3 && node.data.trim());
    if (!own.length || /^(script|style|title)$/i.test(one.tagName)) return [];
    const range = document.createRange(), style = getComputedStyle(one);
    range.selectNodeContents(one);
    const box = one instanceof SVGElement ? one.getBoundingClientRect() : range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || !one.checkVisibility()) return [];
    const colour = one instanceof SVGElement ? style.fill : style.color;
    return [[own[0].data.trim(), colour, box.left + scrollX, box.top + scrollY, box.width, box.height]];
})"""  # noqa: E501
#: where the axes of each chart are on the page, and whether it has a heat map
AXES = """[...document.querySelectorAll('figure')].filter(one => one.querySelector('script')).map(one => {
    const svg = one.querySelector('svg'), at = svg.getBoundingClientRect();
    const scale = at.width / svg.viewBox.baseVal.width;
    const [left, top, width, height] = JSON.parse(one.querySelector('script').textContent).box;
    return [at.left + scrollX + left * scale, at.top + scrollY + top * scale, width * scale, height * scale];
})"""  # noqa: E501
#: charts of one time span zoom together
ZOOM = """document.querySelectorAll('figure').forEach(one => {
    if (!one.querySelector('button')?.hidden) return;
    for (const key of '+++') one.dispatchEvent(new KeyboardEvent('keydown', {key}));
})"""

Pixels = npt.NDArray[np.float32]
Box = Sequence[float]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything is written."""
    return tmp_path_factory.mktemp("seen")


def _command(*words: object) -> None:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code in (0, 1), done.output


def _records(folder: Path) -> Path:
    """A bundle of two days of a farm that is too small in the middle of the day."""
    draw = np.random.default_rng(1)
    arrivals = [MONDAY + 90.0 * number for number in range(1900)]
    attempts = served(arrivals, lambda: float(draw.uniform(200, 1000)), servers=7)
    write_bundle(folder / "records", bundle_of(attempts))
    return folder / "records"


def _in_progress(folder: Path) -> Path:
    """The page of a run whose log was half written when its reader had enough."""
    whole, run, page = folder / "whole", folder / "half", folder / "progress.html"
    farm.simulate("quickstart", out=whole)
    run.mkdir()
    for file in whole.iterdir():
        lines = file.read_bytes().splitlines(keepends=True)
        if file.name == "events.jsonl":
            lines = lines[: len(lines) // 2]
        if file.name not in ("jobs.csv", "summary.json"):
            (run / file.name).write_bytes(b"".join(lines))
    meta = msgspec.json.decode((run / META).read_bytes()) | {"state": "running"}
    (run / META).write_bytes(msgspec.json.encode(meta))

    def enough(_: float) -> None:
        raise KeyboardInterrupt

    return follow_run(run, page, wait=enough)


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, Path]:
    """A page of each kind."""
    shared = farm.simulate("fair-share-two-teams")
    shortest_first = farm.simulate("fair-share-two-teams", scheduling__policy="sjf")
    sets = ["estimates.rules=[launchpad, rollout]", "estimates.rollouts=20", "workload.0.count=200"]
    options = [word for text in sets for word in ("--set", text)]
    run = folder / "estimated"
    _command("simulate", "mm1", "--out", run, "-q", *options)
    _command("admin", "score", run, "--plot", folder / "score.html")
    objective = "p95(waiting_time) < 2m"
    plan = folder / "plan.html"
    _command("plan", "fair-share-two-teams", "--slo", objective, "-n", 2, "-q", "--plot", plan)
    thesis = folder / "study.html"
    _command("admin", "study", "thesis", "--part", "evaluation", "--runs", 2, "-q", "-o", thesis)
    slowdowns = {"median": [(0.0, 1.0), (1.0, 2.3), (2.0, 4.3)]}  # as calibrate draws them
    bars = [(0.0, 0.9, 1.1), (1.0, 2.0, 2.6), (2.0, 3.9, 4.8)]
    figure = Figure("Slowdown", slowdowns, ("heavy jobs", "slowdown"), bars)
    write_figures(folder / "calibration.html", [figure], "--plot")
    settings = {"scheduling.policy": ["fifo", "sjf", "ljf"], "pools.0.builders": [4, 6]}
    sweep = farm.sweep("fair-share-two-teams", settings, replications=2)
    return {
        "run": farm.report(farm.simulate("quickstart"), out=folder / "run.html"),
        "invocations": farm.report(shared, out=folder / "invocations.html"),
        "autoscaled": farm.report(
            farm.simulate("ephemeral-runners"), out=folder / "autoscaled.html"
        ),
        "estimates": farm.report(run, out=folder / "estimates.html"),
        "comparison": farm.report(shared, shortest_first, out=folder / "comparison.html"),
        "sweep": farm.report(sweep, out=folder / "sweep.html"),
        "records": farm.report(_records(folder), out=folder / "records.html"),
        "progress": _in_progress(folder),
        "score": folder / "score.html",
        "plan": plan,
        "study": thesis,
        "calibration": folder / "calibration.html",
    }


@pytest.fixture(scope="module")
def pictures(folder: Path) -> dict[str, Path]:
    """Charts of each kind, saved as SVG."""
    run = farm.simulate("quickstart")
    return {
        name: run.plot(name)[0].save(folder / f"{name}.svg")
        for name in ("queue", "utilization", "slots", "invocations")
    }


NAMES = (
    "run", "invocations", "autoscaled", "estimates", "comparison", "sweep", "records", "progress",
    "score", "plan", "study", "calibration",
)  # fmt: skip
PICTURES = ("queue", "utilization", "slots", "invocations")


def _luminance(colour: npt.NDArray[Any]) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _contrast(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _cut(pixels: Pixels, box: Box) -> Pixels:
    left, top, width, height = (round(part) for part in box)
    cut: Pixels = pixels[max(0, top) : top + height, max(0, left) : left + width]
    return cut


def _ground(pixels: Pixels, box: Box) -> npt.NDArray[Any]:
    """Return the colour that most pixels of a box have."""
    colours, counts = np.unique(
        _cut(pixels, box).reshape(-1, 3).round(3), axis=0, return_counts=True
    )
    ground: npt.NDArray[Any] = colours[counts.argmax()]
    return ground


def _unreadable(browser: Chromium) -> list[tuple[str, float]]:
    """Return the texts of the page that stand out too little from their ground."""
    pixels = browser.screenshot()
    texts = browser.evaluate(TEXTS)
    assert len(texts) > 3
    seen = []
    for text, colour, *box in texts:
        if not _cut(pixels, box).size:
            continue
        levels = np.array([float(part) for part in colour.strip("rgba()").split(",")[:3]]) / 255
        seen.append((text, _contrast(levels, _ground(pixels, box))))
    return [(text, contrast) for text, contrast in seen if contrast < LEAST_CONTRAST]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_of_a_page_stands_out(
    browser: Chromium, pages: dict[str, Path], name: str, scheme: str
) -> None:
    """A white chart on a dark page has light text on a light ground: nothing of it can be read."""
    browser.open(pages[name], 1280, scheme)
    assert _unreadable(browser) == []
    level = _luminance(browser.screenshot()[2, 2])
    assert (level < 0.1) == (scheme == "dark")


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_of_a_saved_picture_stands_out(
    browser: Chromium, pictures: dict[str, Path], name: str, scheme: str
) -> None:
    """A picture brings its ground along, on whatever page it stands."""
    browser.open(pictures[name], 600, scheme)
    assert _unreadable(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_saved_picture_can_be_read_on_a_white_page(
    browser: Chromium, pictures: dict[str, Path], folder: Path, scheme: str
) -> None:
    """Not every page goes by its reader's preference, as the picture in it does."""
    page = folder / "white.html"
    page.write_text(f"<body style='margin:0;background:#fff'><img src={pictures['queue'].name}>")
    browser.open(page, 600, scheme)
    pixels = browser.screenshot()
    edge = pixels[5, 5]
    ink = max(_contrast(edge, colour) for colour in np.unique(pixels[:300].reshape(-1, 3), axis=0))
    assert ink > 10
    assert (_luminance(edge) < 0.1) == (scheme == "dark")


def _colourful(pixels: Pixels, box: Box) -> float:
    """Return the share of the pixels of a box that have a colour: grids and texts are grey."""
    cut = _cut(pixels, box)
    spread = cut.max(axis=2) - cut.min(axis=2)
    return float((spread > COLOURED).mean())


@pytest.mark.parametrize("name", ["run", "autoscaled", "records", "progress"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_chart_is_empty_after_zooming(
    browser: Chromium, pages: dict[str, Path], name: str, scheme: str
) -> None:
    """Lines, blocks and heat maps: what was drawn in the middle is there.

    Lines that are drawn out have fewer pixels than before.
    """
    browser.open(pages[name], 1280, scheme)
    before = browser.screenshot()
    browser.evaluate(ZOOM)
    after = browser.screenshot()
    boxes = browser.evaluate(AXES)
    assert len(boxes) >= (1 if name == "records" else 4)
    for number, (left, top, width, height) in enumerate(boxes):
        middle = [left + width * 0.35, top, width * 0.3, height]
        had = _colourful(before, middle)
        shown = _colourful(after, [left, top, width, height])
        assert had == 0 or shown > had / 5, f"chart {number}: {had:.1%} before, {shown:.1%} after"
