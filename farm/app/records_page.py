"""The page on a farm's records: why its jobs wait, and what shows it."""

from __future__ import annotations

import numpy as np

from farm.doctor.figures import PlatformRecords, examine, platforms_of
from farm.doctor.table import HEADINGS, about, row_of
from farm.doctor.verdict import verdicts
from farm.records.bundle import Bundle, Clock
from farm.results.figures.chart import Chart
from farm.results.figures.page import Section, Table, page
from farm.results.figures.time_axis import WallClock
from farm.results.run_directory import this_version

OBJECTIVE = 300.0
"""The p95 wait within which a platform is fine, seconds, as `farm doctor` has it."""
POINTS = 300
MOST_COLUMNS = 5
CHARTS = 8
"""Platforms that get a chart: those with the most load."""


def page_of_records(bundle: Bundle) -> str:
    """Return a self-contained page: verdicts, figures, and how many waited for how many slots."""
    figures = examine(bundle, None, OBJECTIVE)
    found = [
        verdict
        for one in figures.platforms
        for verdict in verdicts(one, figures.resolution_time, OBJECTIVE)
    ]
    manifest = bundle.manifest
    words = [
        *(f"{one.platform or '(no labels)'}: {one.kind}: {one.text}." for one in found),
        *(f"{remark}." for remark in manifest.remarks),
    ]
    lines = [("platform", *HEADINGS), *map(row_of, figures.platforms)]
    if len(lines) <= 1 + MOST_COLUMNS:  # a row for each figure, which fits any window
        lines = [*zip(*lines, strict=True)]
    table = Table("", lines[0], lines[1:])
    by_name = {one.name: one for one in platforms_of(bundle)}
    charts = [_chart(by_name[one.platform], bundle.clock) for one in figures.platforms[:CHARTS]]
    said = "; ".join([f"{figures.hours:,.1f} hours of records", *about(figures).values()])
    sections = [
        Section("", words),
        Section("Figures", [f"{said}."], (), [table]),
        Section("Waiting and running", (), charts),
    ]
    title = f"Why jobs wait: records of {manifest.source}"
    numbers = {"verdicts": found, "figures": figures, "manifest": manifest}
    begins, ends = (at[:16].replace("T", " ") for at in (manifest.begins, manifest.ends))
    zone = manifest.zone or "UTC"
    under = f"build-farm-emulator {this_version()}; jobs from {begins} to {ends} ({zone})"
    return page(title, sections, numbers, under=under)


def _chart(records: PlatformRecords, clock: Clock) -> Chart:
    """Draw how many waited and ran, of how many slots: means of each interval."""
    steps = records.steps()
    edges = np.linspace(records.begins, records.ends, POINTS + 1)
    at = (edges[:-1] + edges[1:]) / 2 - edges[0]
    chart = Chart(records.name or "(no labels)", y="jobs, slots")
    shows = WallClock(records.begins + clock.ahead, dated=True, zone=clock.zone)
    chart.over_time(0.0, float(edges[-1] - edges[0]), shows)
    for name, count in (
        ("waiting", steps.waiting),
        ("running", steps.busy),
        ("slots", steps.slots),
    ):
        if count.any():  # no runner is known: no slots
            chart.line(name, at, steps.means(count, edges))
    chart.axes.set_ylim(bottom=0.0)
    return chart.finished()
