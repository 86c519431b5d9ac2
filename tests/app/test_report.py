"""The page of a run: nothing is loaded, its numbers are the summary's, its figures are right."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from typer.testing import CliRunner

import farm
from farm.cli.main import app
from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.model import Job
from farm.results.comparison.comparison_answer import Choice
from farm.results.comparison.comparison_tables import matrix_of_comparison
from farm.results.figures.chart import COLOURS, DARK, Chart
from farm.results.figures.line_charts import Figure
from farm.results.report.comparison_figures import trade_off_chart
from farm.results.report.over_time import JobsOverTime, busy_shares, highest, lanes
from farm.results.report.words import of_run
from farm.results.table.job_table import table_of
from farm.results.table.recorder import Recorder

SMALL = {"workload__0__count": 40}


class Page(html.parser.HTMLParser):
    """Parse a page as a browser does: its JSON by id, its headings, what it would load."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.numbers: dict[str, Any] = {}
        self.loads: list[str] = []
        self.charts = self.programs = 0
        self._island: str | None = None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._island = given.get("id") if tag == "script" else None
        self.charts += tag == "svg"
        self.programs += tag == "script" and "type" not in given
        loads = [value or "" for name, value in attrs if name in {"src", "href", "srcset"}]
        self.loads += [one for one in loads if not one.startswith(("#", "data:"))]

    def handle_data(self, data: str) -> None:
        if self._island and data.strip():
            self.numbers[self._island] = json.loads(data)


@pytest.mark.parametrize(
    "count",
    [1, *(pytest.param(count, marks=pytest.mark.slow) for count in (10, 10_000, 100_000))],
)
def test_a_page_of_any_number_of_jobs_is_small_and_right(tmp_path: Path, count: int) -> None:
    """Figures are binned: the page does not grow with its run; its numbers are summary.json's."""
    run = farm.simulate("mm1", seeds=2, out=tmp_path / "run", workload__0__count=count)
    path = tmp_path / "r.html"
    assert CliRunner().invoke(app, ["report", str(run.path), "-o", str(path)]).exit_code == 0
    page = Page(path)
    assert page.charts >= (3 if count > 1 else 2)
    assert page.loads == []  # from file:// it needs no network
    assert page.programs == 1  # that of the charts; others are refused by its policy
    assert page.numbers["summary"] == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert page.numbers["summary"]["jobs"]["submitted"] == run.summary["jobs"]["submitted"] == count
    assert path.stat().st_size < 500_000


def test_a_page_begins_with_the_answer_and_says_where_it_is_from(tmp_path: Path) -> None:
    """Version, day, seed, unit of cost; a table that would say the same again is left out."""
    run = farm.simulate("quickstart", out=tmp_path / "run")
    text = farm.report(run, out=tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count("<svg") >= 5
    title, _, rest = text.partition("</h1>")
    assert title.endswith("quickstart: fifo, seed 1, simulated")
    meta = json.loads((tmp_path / "run/meta.json").read_text())
    assert f"build-farm-emulator {farm.__version__}, {meta['started'][:10]}" in rest
    assert "cost: builder-hours" in rest
    answer = rest.index(f"<p>{run.answer}.</p>")
    assert answer < rest.index("655 jobs were submitted: all succeeded. It took 4h46m from")
    assert ("<th>pool</th>" in text, "<th>platform</th>" in text) == (True, False)
    swept = farm.sweep("quickstart", {"scheduling.policy": ["fifo", "sjf"]}, replications=1)
    page = farm.report(swept, out=tmp_path / "s.html").read_text(encoding="utf-8")
    assert ", 1 seed from 1 on" in page
    beginning = page.index("It is a trade: with sjf jobs wait less, at 6.2 % more cost than")
    assert beginning < page.index("Mean wait against cost") < page.index("<td data-name")


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    """Names come from users: they are shown as text, in figures and in the numbers."""
    nasty = "</script><script>alert(1)</script>$\\frac$"
    attributes = {"team": {nasty: 1}}
    run = farm.simulate("mm1", workload__0__attributes=attributes, **SMALL)
    page = Page(farm.report(run, out=tmp_path / "r.html"))
    assert nasty in page.numbers["summary"]["invocations"]


@pytest.mark.slow
def test_a_farm_with_a_clock_has_weekdays_on_its_axes(tmp_path: Path) -> None:
    """Weekday and time of day where the scenario goes by them, else time since the start."""
    run = farm.simulate("mm1", starts="wed 14:30", **SMALL)
    waiting, _ = run.plot("queue")
    [first, *_] = waiting.axes.get_xticklabels()
    assert first.get_text().startswith("Wed 14:")
    assert waiting.axes.get_xlabel() == "clock time, from Wed 14:30 on"
    plain, _ = farm.simulate("mm1", **SMALL).plot("queue")
    assert [text.get_text() for text in plain.axes.get_xticklabels()][:2] == ["0", "10s"]
    assert plain.axes.get_xlabel() == "time since the start"
    text = farm.report(run, out=tmp_path / "r.html").read_text(encoding="utf-8")
    assert f'"clock":{(4 + 2) * 86400 + 14.5 * 3600}' in text


def test_pools_have_a_heat_map_of_their_own_busy_slots() -> None:
    """A row for each pool, the mean of which is its utilization; none for one pool."""
    run = farm.simulate("heterogeneous")
    [heat] = run.plot("utilization")
    [image] = heat.axes.images
    shares = np.asarray(image.get_array())[..., 3]
    for row, name in zip(shares, ("slow", "fast"), strict=True):
        idle = run.summary["pools"][name]["idle_share"]
        assert row.mean() == pytest.approx(1 - idle, rel=0.02)
    assert farm.simulate("mm1", **SMALL).plot("utilization") == []


def test_a_line_along_an_axis_is_seen() -> None:
    """Jobs that did not wait are a line at 0, which neither an axis nor the edge covers."""
    [chart] = farm.simulate("mm1", **SMALL).plot("distribution")
    [waiting, _] = chart.axes.lines
    assert chart.axes.get_xlim()[0] < min(np.asarray(waiting.get_xdata(), float))
    assert chart.axes.get_xticklabels()[0].get_text() == "0"
    assert all(spine.get_zorder() < waiting.get_zorder() for spine in chart.axes.spines.values())


def test_runners_of_one_job_share_rows() -> None:
    """150 of them, a row each, were a diagonal of slivers; 17 ran at once at most."""
    run = farm.simulate("ephemeral-runners")
    [chart] = run.plot("slots")
    assert "rows are used again after a builder's last job" in chart.title
    rows = {bar.get_y() for bar in chart.axes.patches if isinstance(bar, Rectangle)}
    assert len(rows) == run.summary["builders"]["max_running"] == 17
    assert len(chart.axes.patches) == 150


def _luminance(colour: str) -> float:
    levels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("colours", [COLOURS, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_their_ground(colours: dict[str, str]) -> None:
    """Text as WCAG 2 asks for (4.5), lines and bars, too (3); the same names in both modes."""
    assert colours.keys() == COLOURS.keys()
    ground = _luminance(colours["page"])
    for name in colours.keys() - {"page", "grid"}:
        low, high = sorted((ground, _luminance(colours[name])))
        assert (high + 0.05) / (low + 0.05) >= (3.0 if name.startswith("c") else 4.5), name


def test_a_chart_has_the_ground_of_its_page_and_a_picture_brings_its_own(tmp_path: Path) -> None:
    """A white chart on a dark page, or light text on a white one, cannot be read."""
    chart = Chart("A chart")
    chart.line("line", [1.0, 2.0], [4.0, 3.0])
    bars = Figure("Bars", {"line": [(0.0, 1.0), (1.0, 2.0)]}, ("x", "y"), [(0.0, 0.5, 1.5)]).draw()
    for themed in (chart.themed, bars.themed):
        assert not re.search(r"(fill|stroke): (#|white)", themed)
    picture = chart.save(tmp_path / "chart.svg").read_text()
    assert 'style="fill: #ffffff"' in picture
    assert f'[style*="fill: #ffffff"]{{fill:{DARK["page"]}!important}}' in picture


def test_a_single_point_is_a_ring_around_others() -> None:
    """The best size of a plan, a point of the curve too, was in the legend only."""
    chart = Chart("A plan")
    chart.line("curve", [1.0, 2.0], [4.0, 3.0])
    chart.line("best", [2.0], [3.0])
    curve, best = chart.axes.lines
    assert best.get_markersize() > 2 * curve.get_markersize()
    assert best.get_markerfacecolor() == "none"


def test_what_is_desired_is_drawn_over_what_is_there() -> None:
    """Where both are the same, the line below is seen between the dots of the one above."""
    [chart] = farm.simulate("ephemeral-runners").plot("builders")
    lines = {line.get_label(): line for line in chart.axes.lines}
    assert list(lines) == ["present", "booting", "desired"]
    assert lines["present"].get_linestyle() == "-"
    assert lines["desired"].get_linestyle() != "-"
    assert len({line.get_color() for line in lines.values()}) == 3


def test_the_text_of_a_bar_does_not_cross_its_end() -> None:
    """It stands within a bar that has room for it, and behind one that has not."""
    [chart] = farm.simulate("fair-share-two-teams").plot("invocations")
    loud, calm = (bar for bar in chart.axes.patches if isinstance(bar, Rectangle))
    texts: list[Any] = [*chart.axes.texts]
    assert [text.xy[0] for text in texts] == [0.0, calm.get_width()]
    assert calm.get_width() < loud.get_width()


def test_an_outlier_does_not_flatten_the_other_points() -> None:
    """With it the axis is one of logarithms; all points have their names, if there is room."""
    waits = (60.0, 90.0, 40.0, 120.0, 9000.0)
    choices = [
        Choice(f"setting {n}", wait, None, None, "", 100.0 + 20 * n, costs_other=n > 0)
        for n, wait in enumerate(waits)
    ]
    [chart] = trade_off_chart(choices)
    assert chart.axes.get_yscale() == "log"
    assert chart.axes.get_xscale() == "linear"
    assert {text.get_text() for text in chart.axes.texts} == {choice.name for choice in choices}
    [plain] = trade_off_chart(choices[:4])
    assert plain.axes.get_yscale() == "linear"


@pytest.mark.slow
def test_the_points_that_an_answer_speaks_of_have_their_names() -> None:
    """Also where all cost the same, and where the shortest wait lies among others."""

    def named(*points: tuple[float, float]) -> set[str]:
        choices = [
            Choice(f"setting {n}", wait, None, None, "", cost, costs_other=n > 0)
            for n, (cost, wait) in enumerate(points)
        ]
        [chart] = trade_off_chart(choices)
        return {text.get_text() for text in chart.axes.texts}

    assert named((10.0, 60.0), (10.0, 40.0)) == {"setting 0", "setting 1"}
    crowd = [(1180.0, 90.0), (1176.0, 160.0), (1061.0, 280.0), (1030.0, 78.0), (1316.0, 63.0)]
    assert "setting 1" in named((1512.0, 524.0), (1267.0, 52.0), *crowd, (2140.0, 54.0))


@pytest.mark.slow
def test_several_runs_are_compared_and_a_sweep_has_its_intervals(tmp_path: Path) -> None:
    """One page to send to a colleague."""
    runs = [farm.simulate("mm1", policy=name, **SMALL) for name in ("fifo", "sjf")]
    page = Page(farm.report(*runs, out=tmp_path / "two.html"))
    assert len(page.numbers["comparison"]["pairs"]) == 1
    assert {"summary", "summary-2"} <= set(page.numbers)
    text = (tmp_path / "two.html").read_text(encoding="utf-8")
    first = text.index("scheduling.policy is sjf instead of fifo.")
    assert first < text.index("wait"), "before anything is said of the figures"
    assert "sjf: difference from fifo" in text
    assert "object at 0x" not in text
    kept = tmp_path / "sweep"
    swept = farm.sweep(
        "mm1", {"scheduling.policy": ["fifo", "sjf"]}, replications=2, out=kept, **SMALL
    )
    page = Page(farm.report(kept, out=tmp_path / "sweep.html"))
    assert page.numbers["sweep"] == json.loads((kept / "sweep.json").read_text())
    charts = swept.plot()
    assert len(charts) == 3
    assert "object at 0x" not in (tmp_path / "sweep.html").read_text(encoding="utf-8")
    words = {
        word for chart in charts for text in chart.axes.texts for word in text.get_text().split()
    }
    # a paper's words are its own
    assert not words & {"baseline", "better", "worse", "noise", "same"}


@pytest.mark.slow
def test_the_charts_of_a_run_are_those_of_its_page(tmp_path: Path) -> None:
    """What ``plot`` returns is the page's figure, and can be saved as a picture."""
    run = farm.simulate("quickstart")
    text = farm.report(run, out=tmp_path / "r.html").read_text(encoding="utf-8")
    [linux, _] = run.plot("builders")
    assert (linux.changes, linux.themed in text) == (False, False)
    for name in ("queue", "distribution", "slots", "invocations"):
        charts = run.plot(name)
        assert charts, name
        assert all(one.themed in text for one in charts)
    assert "var(--c0)" in charts[0].themed
    for suffix, begins in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        saved = charts[0].save(tmp_path / f"picture{suffix}").read_bytes()
        assert saved.startswith(begins)
        assert b"var(" not in saved
    with pytest.raises(InputError, match=r"\.svg, \.png, \.pdf"):
        charts[0].save(tmp_path / "picture.jpeg")


def test_what_is_drawn_is_what_is_in_the_run() -> None:
    """The lines' highest points and ends are the summary's numbers."""
    run = farm.simulate("quickstart")
    waiting, running = run.plot("queue")
    assert sum(len(line.get_xdata()) for line in running.axes.lines) == 2 * 400
    for chart, column in ((waiting, "waiting_time_s"), (running, "response_time_s")):
        lines: Any = chart.axes.lines
        assert max(max(line.get_ydata()) for line in lines) > 1
        waits: Any
        curves = {line.get_label(): line for line in run.plot("distribution")[0].axes.lines}
        waits = curves[column.split("_")[0]]
        longest = np.nanmax(run.jobs[column])
        assert waits.get_xdata()[-1] == pytest.approx(longest)
    [bar, *_] = run.plot("invocations")[0].axes.patches
    assert isinstance(bar, Rectangle)
    costs = [part["cost"] for part in run.summary["invocations"].values()]
    assert bar.get_width() == pytest.approx(100 * max(costs) / sum(costs))


def test_counts_over_time_are_the_highest_of_each_interval() -> None:
    """A peak shorter than an interval is seen, and a job that ends makes room first."""
    starts, ends = np.array([0.0, 1.0, 1.2, 5.0]), np.array([5.0, 1.1, np.nan, 6.0])
    found = highest(starts, ends, np.array([0.0, 2.0, 4.0, 6.0, 8.0]))
    assert found.tolist() == [2.0, 2.0, 2.0, 1.0]
    assert highest(starts[:2], ends[:2], np.array([0.0, 2.0, 4.0])).tolist() == [2.0, 1.0]


def test_slots_are_distinguished_and_their_busy_time_adds_up() -> None:
    """Concurrent jobs on one builder are in separate slots; shares are of true time."""
    given = [("1", 0, 4, "a"), ("2", 1, 2, "a"), ("3", 4, 6, "a"), ("4", 0, 8, "b")]
    recorder = Recorder()
    for name, start, end, builder in given:
        job = Job(id=name, service_time=1.0)
        recorder.ends.append(EndJob(job, "succeeded", 1, 0.0, end, start, start, builder))
    jobs = JobsOverTime(table_of(recorder.records(), ()))
    found = lanes(jobs)
    assert [lane.name for lane in found] == ["a", "a 2", "b"]
    assert sorted(place for lane in found for place in lane.jobs) == [0, 1, 2, 3]
    shares = busy_shares(jobs, found, np.array([0.0, 2.0, 4.0, 8.0]))
    assert shares.tolist() == pytest.approx([5 / 6, 4 / 6, 6 / 12])


def test_a_figure_is_written_as_a_picture(tmp_path: Path) -> None:
    """One file per chart, in the format of its suffix; mistakes are one message."""
    run = farm.simulate("mm1", **SMALL, out=tmp_path / "run").path
    for name, figure, files in (
        ("d.svg", "distribution", {"d.svg": b"<?xml"}),
        ("q.png", "queue", {"q-1.png": b"\x89PNG", "q-2.png": b"\x89PNG"}),
    ):
        said = ["report", str(run), "--figure", figure, "-o", str(tmp_path / name)]
        assert CliRunner().invoke(app, said).exit_code == 0
        for file, begins in files.items():
            assert (tmp_path / file).read_bytes().startswith(begins)
    for more, told in (
        (["--figure", "queu", "-o", "q.svg"], "did you mean queue"),
        (["--figure", "queue", "-o", str(tmp_path / "q.txt")], "ends in .svg"),
        (["--figure", "estimates", "-o", "e.svg"], "nothing to draw for the figure estimates"),
        ([str(run), "--figure", "queue", "-o", "q.svg"], "--figure: found 2 runs; allowed: one"),
    ):
        assert told in str(CliRunner().invoke(app, ["report", str(run), *more]).exception)


@pytest.mark.parametrize(
    ("what", "out", "told"),
    [
        ([], "r.html", "nothing to report"),
        (["missing"], "r.html", "missing: no such directory"),
        ([None], "r.pdf", "ends in .html"),
        ([None], "nowhere/r.html", "cannot be written"),
        (["missing"], "nowhere/r.html", "cannot be written"),
    ],
)
def test_bad_input_is_one_message(tmp_path: Path, what: list[Any], out: str, told: str) -> None:
    """No page is half written."""
    run = farm.simulate("mm1", **SMALL)
    with pytest.raises(InputError, match=told):
        farm.report(*(one or run for one in what), out=tmp_path / out)


def test_charts_are_pictures_in_a_notebook() -> None:
    """A list of them was shown as its text; where a list is wanted it still is one."""
    charts = farm.simulate("mm1", **SMALL).plot("queue")
    assert [chart.title for chart in charts] == ["Waiting jobs", "Running jobs"]
    assert charts._repr_html_().count("<svg ") == 2
    swept = farm.sweep("mm1", replications=2, **SMALL).plot("cost")
    assert swept._repr_html_().startswith("<div><svg ")


def test_waits_of_nothing_are_said_as_such() -> None:
    """Of most jobs that did not wait was said that half of them waited at most 0s."""
    run = farm.simulate("mm1", **SMALL, pools__0__builders=40)
    texts = of_run("", run.kept.summary)
    assert any("on average; most started at once, one in" in text for text in texts)


def test_a_difference_that_its_digits_do_not_show_is_none() -> None:
    """It read +0.0 % small, which is two answers."""
    runs = [
        farm.simulate("mm1", jobs=[farm.Job(id="a", service_time=seconds, arrived_at=0.0)])
        for seconds in (100_000.0, 100_000.1)
    ]
    [row] = [
        cells
        for name, _, cells in matrix_of_comparison(farm.compare(*runs).pairs, "")
        if name.startswith("makespan")
    ]
    assert row[0][1].plain == "same"
