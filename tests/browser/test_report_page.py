"""The pages that `farm report` and `farm admin study` write, in a headless browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import farm
from tests.fixtures.chromium import Chromium

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]

FIRST_PAINT = """new Promise(done => new PerformanceObserver(list => {
    for (const one of list.getEntries())
        if (one.name === 'first-contentful-paint') done(one.startTime);
}).observe({type: 'paint', buffered: true}))"""
#: what sticks out of the window, though nothing around it can be scrolled
STICKS_OUT = """[...document.querySelectorAll('body *')].filter(one => {
    if (one.closest('svg') && one.tagName.toLowerCase() !== 'svg') return false;
    if (one.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let up = one.parentElement; up; up = up.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return false;
    return true;
}).map(one => one.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of a run with fair share, of one of 100,000 jobs, and of a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    shared = farm.simulate("fair-share-two-teams", out=folder / "shared")
    other = farm.simulate("fair-share-two-teams", scheduling__policy="sjf", out=folder / "sjf")
    large = farm.simulate("mm1", out=folder / "large", workload__0__count=100_000)
    long = {"starts": "Mon 00:00:02", "pools__windows__name": "win10-64-virtual"}
    clock = farm.simulate("quickstart", **long)
    return {
        "run": farm.report(shared, out=folder / "run.html"),
        "large": farm.report(large, out=folder / "large.html"),
        "clock": farm.report(clock, out=folder / "clock.html"),
        "comparison": farm.report(shared, other, out=folder / "comparison.html"),
    }


#: pixels of the smallest text of a chart
SMALLEST = """Math.min(...[...document.querySelectorAll('figure text')].map(text => {
    const svg = text.ownerSVGElement, scale = svg.clientWidth / svg.viewBox.baseVal.width;
    return parseFloat(getComputedStyle(text).fontSize) * scale;
}))"""


#: texts of one axis that lie over one another
ONE_OVER_ANOTHER = """[...document.querySelectorAll('figure .x')].flatMap(axis => {
    const boxes = [...axis.querySelectorAll('text')].map(text => text.getBoundingClientRect());
    return boxes.filter((one, n) => boxes.some((other, m) => m > n && one.width && other.width
        && one.left < other.right && other.left < one.right
        && one.top < other.bottom - 3 && other.top < one.bottom - 3)).map(one => one.left);
})"""


@pytest.mark.parametrize("name", ["run", "large", "clock", "comparison"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_fits_its_window(
    browser: Chromium, pages: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    """On a telephone and on a desktop, light and dark: no wider than the window; loads nothing.

    Nor are the words of its charts too small to read.
    """
    browser.open(pages[name], width, scheme)
    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(STICKS_OUT) == []
    assert browser.evaluate(SMALLEST) >= 10
    assert browser.evaluate(ONE_OVER_ANOTHER) == []
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    level = sum(int(part) for part in dark.strip("rgba()").split(",")[:3]) / 3
    assert (level < 128) == (scheme == "dark")
    assert browser.evaluate(FIRST_PAINT) > 0
    loaded = [address for address in browser.requests if not address.startswith("data:")]
    assert loaded == [pages[name].as_uri()]


#: the words of the card beside a place of the first chart, in shares of its width and height
POINTED = """(() => {
    const svg = document.querySelector('figure svg'), box = svg.getBoundingClientRect();
    const at = {clientX: box.left + box.width * 0.5, clientY: box.top + box.height * 0.4};
    svg.dispatchEvent(new PointerEvent('pointermove', {...at, bubbles: true}));
    return document.querySelector('.card').innerText.split(/\\s*\\n\\s*/);
})()"""
TICKS = """[...document.querySelectorAll('figure:first-of-type .x > .tick')].filter(
    one => one.style.display !== 'none').map(one => one.querySelector('text').textContent)"""
PRESS = "document.querySelector('figure').dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}))"


def test_a_chart_says_its_values_and_zooms(browser: Chromium, pages: dict[str, Path]) -> None:
    """Under the pointer: time and value of each line's nearest point; keys zoom, and back."""
    browser.open(pages["run"], 1280, "light")
    when, *rows = browser.evaluate(POINTED)
    chart = browser.evaluate("JSON.parse(document.querySelector('figure > script').textContent)")
    [line] = chart["lines"]
    begin, step, count = line["steps"]
    left, _, width, _ = chart["box"]
    low, high = chart["x"]
    middle = browser.evaluate("document.querySelector('figure svg').viewBox.baseVal.width") / 2
    nearest = round((low + (middle - left) / width * (high - low) - begin) / step)
    assert 0 < nearest < count
    assert rows == [line["name"], str(line["y"][nearest])]
    assert when.endswith("s")
    whole = browser.evaluate(TICKS)
    browser.evaluate(PRESS % "+")
    assert browser.evaluate(TICKS) != whole
    browser.evaluate(PRESS % "Escape")
    assert browser.evaluate(TICKS) == whole


TOUCHED = """(() => {
    const svg = document.querySelector('figure svg');
    scrollTo(0, svg.getBoundingClientRect().top + scrollY - 99);
    const box = svg.getBoundingClientRect();
    return [box.left, box.width, box.top + box.height / 2];
})()"""


def test_fingers_zoom_and_move_a_chart(browser: Chromium, pages: dict[str, Path]) -> None:
    """Two zoom, one moves what is zoomed, a button shows all of it again."""
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    browser.open(pages["run"], 390, "light")
    left, width, y = browser.evaluate(TOUCHED)

    def touch(kind: str, *shares: float) -> None:
        points = [{"x": left + width * one, "y": y, "id": n} for n, one in enumerate(shares)]
        browser.call("Input.dispatchTouchEvent", type=f"touch{kind}", touchPoints=points)

    seen = [browser.evaluate(TICKS)]
    for begin, end in (((0.45, 0.55), (0.2, 0.8)), ((0.6,), (0.3,))):
        touch("Start", *begin)
        touch("Move", *end)
        touch("End")
        seen.append(browser.evaluate(TICKS))
    whole, zoomed, moved = seen
    assert len({*zoomed} - {*whole}) > 1
    assert set(zoomed) != set(moved) != set(whole)
    assert {*zoomed} & {*moved}
    browser.evaluate("document.querySelector('figure button').click()")
    assert browser.evaluate(TICKS) == whole
    assert browser.evaluate("document.querySelector('figure button').hidden")
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_a_page_is_whole_without_its_script(browser: Chromium, pages: dict[str, Path]) -> None:
    """Charts, legends and ticks are in the page itself."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages["run"], 1280, "light")
        root = browser.call("DOM.getDocument", depth=-1, pierce=True)["root"]
        found = str(root)
        assert "class', 'tick'" in found
        assert "class', 'card" not in found
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
