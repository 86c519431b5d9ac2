"""Line charts: as pictures, or as a page of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from farm.results.figures.chart import COLOURS, SUFFIXES, Chart
from farm.results.figures.page import PageSection, page, write_page
from farm.results.output_file import check_output

Points = Sequence[tuple[float, float]]
KINDS = (".html", *SUFFIXES)
"""The endings of names that ``write_figures`` can write."""


class Figure(NamedTuple):
    """A line chart."""

    title: str
    lines: Mapping[str, Points]
    #: names of the axes: x, y
    axes: tuple[str, str]
    #: error bars: x, from, to
    bars: Sequence[tuple[float, float, float]] = ()
    #: names of 0, 1, 2, … on the x-axis, instead of numbers
    ticks: Sequence[str] = ()

    def draw(self) -> Chart:
        """Draw the chart."""
        chart = Chart(self.title, *self.axes, height=4.0)
        for x, low, high in self.bars:
            chart.axes.vlines(x, low, high, color=COLOURS["dim"])
        for name, points in self.lines.items():
            chart.line(name, [x for x, _ in points], [y for _, y in points])
        if all(x == int(x) for points in self.lines.values() for x, _ in points):
            chart.axes.locator_params("x", integer=True)
        chart.axes.set_ylim(bottom=min(0.0, chart.axes.dataLim.y0))
        if self.ticks:
            chart.names(self.ticks)
        return chart.finished()


def write_figures(
    path: Path, figures: Sequence[Figure], option: str, title: str = "", words: Sequence[str] = ()
) -> None:
    """Write figures as a page (.html), or as one picture each (.svg, .png, .pdf).

    ``title`` and ``words`` are the page's: the answer, then where it is from. Pictures after the
    first are numbered: ``wait.svg``, ``wait-2.svg``. Raises InputError.
    """
    check_output(path, KINDS, option)
    if path.suffix == ".html":
        charts = [figure.draw() for figure in figures]
        under = words[-1] if words else ""
        section = PageSection("", words[:-1], charts)
        write_page(path, page(title or figures[0].title, [section], {}, under=under))
        return
    for place, figure in enumerate(figures, 1):
        name = path if place == 1 else path.with_stem(f"{path.stem}-{place}")
        figure.draw().save(name)
