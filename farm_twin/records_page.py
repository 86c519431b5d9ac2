"""The page on the records of a farm: why its jobs wait, in words, figures and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Clock, read_bundle
from farm.records.reading import part
from farm.results.figures.chart import Chart
from farm.results.figures.page import PageSection, PageTable, made_by, page
from farm.results.figures.time_axis import WallClock
from farm.results.formatting import sentence
from farm_twin.advice_on_records import advice_on_records
from farm_twin.diagnosis.diagnose import diagnose
from farm_twin.diagnosis.figures import PlatformRecords, platforms_of
from farm_twin.diagnosis.table import HEADINGS, about, row_of
from farm_twin.diagnosis.verdict import Verdict

OnStep = Callable[[str, float], None]

OBJECTIVE = 300.0
"""The p95 wait within which a platform is fine, seconds, as `farm doctor` has it."""
POINTS = 300
MOST_COLUMNS = 5
CHARTS = 8
"""Platforms that get a chart: those with the most load."""


def page_of_records(path: Path, on_step: OnStep) -> str:
    """Return the page of a bundle: verdicts, figures, and how many waited for how many slots."""
    bundle = read_bundle(path, part(partial(on_step, "reading"), 0.0, 0.2))
    examination = diagnose(bundle, None, OBJECTIVE, part(partial(on_step, "examining"), 0.2, 0.3))
    figures = examination.figures
    found = examination.verdicts
    advice = advice_on_records(
        bundle, examination, part(partial(on_step, "simulating the records"), 0.5, 0.3)
    )
    advised = f"In simulation: {sentence(advice.sentence)}" if advice.sentence else ""
    if advice.why_not:
        advised = f"What would shorten the waits is not told: {advice.why_not}."
    manifest = bundle.manifest
    verdict_lines = [
        *(f"{one.platform or '(no labels)'}: {one.title}: {one.text}." for one in found),
        *filter(None, [advised]),
        *map(sentence, manifest.remarks),
    ]
    lines = [("platform", *HEADINGS), *map(row_of, figures.platforms)]
    if len(lines) <= 1 + MOST_COLUMNS:  # a row for each figure, which fits any window
        lines = [*zip(*lines, strict=True)]
    table = PageTable("", lines[0], lines[1:])
    columns = AttemptColumns.of(bundle.attempts)
    records = {platform.name: platform for platform in platforms_of(columns, bundle.manifest)}
    on_step("drawing", 0.8)
    charts = [_chart(records[one.platform], bundle.clock) for one in figures.platforms[:CHARTS]]
    about_them = "; ".join([f"{figures.hours:,.1f} hours of records", *about(figures).values()])
    sections = [
        PageSection("", verdict_lines),
        PageSection("What the verdicts stand on", list(_evidence(found))),
        PageSection("Figures", [f"{about_them}."], (), [table]),
        PageSection("Waiting and running", (), charts),
    ]
    title = f"Why jobs wait: records of {manifest.source}"
    numbers = {"verdicts": found, "figures": figures, "manifest": manifest}
    begins, ends = (at[:16].replace("T", " ") for at in (manifest.begins, manifest.ends))
    zone = manifest.zone or "UTC"
    under = f"{made_by()}; jobs from {begins} to {ends} ({zone})"
    return page(title, sections, numbers, under=under)


def _evidence(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield what each verdict stands on, and how it changes if what was assumed is otherwise."""
    told = set[str]()
    for verdict in verdicts:
        name = verdict.platform or "(no labels)"
        if name in told:
            continue
        told.add(name)
        yield sentence(f"{name}: {'; '.join(verdict.evidence)}")
        for assumed in verdict.assumed:
            yield sentence(
                f"{name}: assumed: {assumed.what}: {assumed.value}; otherwise: {assumed.otherwise}"
            )


def _chart(records: PlatformRecords, clock: Clock) -> Chart:
    """Draw how many waited and ran, of how many slots: means of each interval."""
    steps = records.steps()
    edges = np.linspace(records.begins, records.ends, POINTS + 1)
    at = (edges[:-1] + edges[1:]) / 2 - edges[0]
    chart = Chart(records.name or "(no labels)", y="jobs, slots")
    shows = WallClock(records.begins + clock.ahead, dated=True, zone=clock.zone)
    chart.over_time(0.0, float(edges[-1] - edges[0]), shows)
    for name, count in zip(
        ("waiting", "running", "slots"), (steps.waiting, steps.busy, steps.slots), strict=True
    ):
        if count.any():  # no runner is known: no slots
            chart.line(name, at, steps.means(count, edges), look=name)
    chart.axes.set_ylim(bottom=0.0)
    return chart.finished()
