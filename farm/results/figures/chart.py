"""Charts as self-contained SVG: light and dark, and readable without colour.

A chart styles itself, so it looks the same in a page, in a notebook and as a file. Lines are told
apart by dashes as well as by colours (Okabe and Ito's, which colour-blind people distinguish).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.core.errors import InputError

Floats = NDArray[np.float64]

WIDTH = 640
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 44
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4", "1 2", "12 4")

STYLE = """<style>
.farm-chart{--ink:#1b1b1b;--dim:#6a6a6a;--grid:#e2e2e2;--back:#fff;--c0:#0072b2;--c1:#d55e00;
--c2:#009e73;--c3:#b4588f;--c4:#a87800;--c5:#2b8cc4;--c6:#1b1b1b;background:var(--back);
font:12px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.farm-chart{--ink:#e8e8e8;--dim:#a5a5a5;--grid:#3a3a3a;
--back:#16181b;--c0:#56b4e9;--c1:#ff8c42;--c2:#2fc79b;--c3:#e39bc4;--c4:#f0b429;--c5:#8fd0f5;
--c6:#e8e8e8}}
.farm-chart text{fill:var(--ink)} .farm-chart .dim{fill:var(--dim)}
.farm-chart .grid{stroke:var(--grid)} .farm-chart .axis{stroke:var(--dim);fill:none}
.farm-chart .line{fill:none;stroke-width:1.6}
</style>"""


class Chart(NamedTuple):
    """A picture: what it shows, and its SVG document."""

    title: str
    svg: str

    def save(self, path: str | Path) -> Path:
        """Write it as SVG. Raises InputError if that cannot be done."""
        path = Path(path)
        if path.suffix != ".svg":
            raise InputError(f"{path}: allowed: a name that ends in .svg")
        try:
            path.write_text(self.svg, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror}") from None
        return path

    def _repr_svg_(self) -> str:
        """Show it in a notebook."""
        return self.svg


class Line(NamedTuple):
    """A named line through points."""

    name: str
    xs: Sequence[float] | Floats
    ys: Sequence[float] | Floats


class Axis(NamedTuple):
    """A range of values, how they are written, and whether in powers of ten."""

    name: str
    low: float
    high: float
    write: Callable[[float], str] = "{:g}".format
    log: bool = False
    unit: float = 1.0
    round_values: tuple[float, ...] = ()

    def share(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return (value - low) / (high - low) if high > low else 0.0

    def ticks(self) -> list[float]:
        """Return some round values between the ends."""
        if self.round_values:
            return [value for value in self.round_values if self.low <= value <= self.high]
        return [tick * self.unit for tick in _round(self.low / self.unit, self.high / self.unit)]


def _round(low: float, high: float, most: int = 6) -> list[float]:
    span = high - low
    if span <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def time_axis(name: str, low: float, high: float) -> Axis:
    """Return an axis of farm time, in the unit that suits its length."""
    units = (("d", 86400.0, 3), ("h", 3600.0, 2), ("min", 60.0, 2), ("s", 1.0, 0))
    unit, seconds = next((u, s) for u, s, least in units if high - low >= least * s)
    high = max(high, low + 1e-9)
    return Axis(f"{name} ({unit})", low, high, lambda v: f"{v / seconds:.4g}", unit=seconds)


def chart(
    title: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    *,
    height: int = 240,
    marks: Sequence[str] = (),
) -> Chart:
    """Return a chart of lines, and of marks that were drawn in its frame already."""
    frame = Frame(x, y, height)
    body = [frame.line(number, line) for number, line in enumerate(lines)]
    legend = frame.legend([line.name for line in lines])
    return frame.chart(title, [*frame.axes(), *marks, *body, *legend])


class Frame:
    """The plotting area: from values to places."""

    def __init__(self, x: Axis, y: Axis, height: int = 240, left: int = LEFT) -> None:
        self._x, self._y, self._height, self.left = x, y, height, left

    def x(self, value: float) -> float:
        """Return where a value stands across."""
        return self.left + self._x.share(value) * (WIDTH - self.left - RIGHT)

    def y(self, value: float) -> float:
        """Return where a value stands from the top."""
        return self._height - BOTTOM - self._y.share(value) * (self._height - TOP - BOTTOM)

    def chart(self, title: str, parts: Sequence[str]) -> Chart:
        """Return the document around what was drawn."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="farm-chart" role="img" '
            f'aria-label="{escape(title)}" viewBox="0 0 {WIDTH} {self._height}">{STYLE}'
        )
        return Chart(title, "\n".join([head, *parts, "</svg>"]))

    def axes(self) -> list[str]:
        """Return the grid, its numbers and names."""
        bottom, right = self._height - BOTTOM, WIDTH - RIGHT
        parts = []
        for tick in self._y.ticks():
            at = self.y(tick)
            parts.append(f'<path class="grid" d="M{self.left} {at:.1f}H{right}"/>')
            parts.append(text(self.left - 6, at + 4, self._y.write(tick), anchor="end"))
        parts.extend(
            text(self.x(tick), bottom + 16, self._x.write(tick), anchor="middle")
            for tick in self._x.ticks()
        )
        parts.append(f'<path class="axis" d="M{self.left} {TOP}V{bottom}H{right}"/>')
        middle = (self.left + right) / 2
        parts.append(text(middle, self._height - 8, self._x.name, anchor="middle", dim=True))
        parts.append(text(4, TOP - 20 if not self._y.name else TOP - 10, self._y.name, dim=True))
        return parts

    def line(self, number: int, line: Line) -> str:
        """Return a line, its points rounded to tenths."""
        points = " ".join(
            f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(line.xs, line.ys, strict=True)
        )
        return f'<polyline class="line" {stroke(number)} points="{points}"/>'

    def legend(self, names: Sequence[str]) -> list[str]:
        """Return the names of the lines, each behind a piece of it."""
        parts, left = [], float(self.left)
        for number, name in enumerate(names):
            shown = name if len(name) <= 22 else name[:21] + "…"
            parts.append(f'<path class="line" {stroke(number)} d="M{left:.1f} 10h24"/>')
            parts.append(text(left + 28, 14, shown))
            left += 48 + 6.4 * len(shown)
        return parts


def stroke(number: int) -> str:
    """Return the looks of the line of this number."""
    dashes = DASHES[number % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'stroke="var(--c{number % 7})"{dashed}'


def text(x: float, y: float, words: str, *, anchor: str = "start", dim: bool = False) -> str:
    """Return a text at a place."""
    looks = ' class="dim"' if dim else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{looks}>{escape(words)}</text>'
