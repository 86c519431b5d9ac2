"""Lines in a frame, as a self-contained picture: SVG, or a page around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from farm.core.errors import InputError

SVG = "http://www.w3.org/2000/svg"
WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 76, 210, 44, 56
#: distinguishable without colour vision (Okabe and Ito's palette)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

#: a line of more points is drawn without dots
MAX_DOTS = 50

Points = Sequence[tuple[float, float]]


class Figure(NamedTuple):
    """Named lines in a frame."""

    title: str
    lines: Mapping[str, Points]
    #: names of the axes: across, up
    axes: tuple[str, str]
    #: error bars: across, from, to
    bars: Sequence[tuple[float, float, float]] = ()
    #: names of 0, 1, 2, … across, in the place of numbers
    ticks: Sequence[str] = ()


def write_figures(path: Path, figures: Sequence[Figure], option: str) -> None:
    """Write figures, one below the other, as SVG or HTML, by the file's suffix; InputError."""
    picture = _stacked([drawing(figure) for figure in figures])
    if path.suffix == ".html":
        title = escape(figures[0].title)
        picture = (
            f"<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>{title}</title>"
            f"\n<body style='max-width:60em;margin:2em auto'>{picture}</body></html>\n"
        )
    elif path.suffix != ".svg":
        raise InputError(
            f"{option}: found {path.name!r}; allowed: a name that ends in .svg or .html"
        )
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option}: cannot write {path}: {error.strerror}") from None


def _stacked(drawings: Sequence[str]) -> str:
    if len(drawings) == 1:
        return drawings[0]
    parts = [
        one.replace("<svg ", f'<svg y="{place * HEIGHT}" width="{WIDTH}" height="{HEIGHT}" ', 1)
        for place, one in enumerate(drawings)
    ]
    view = f'viewBox="0 0 {WIDTH} {HEIGHT * len(drawings)}"'
    return "\n".join([f'<svg xmlns="{SVG}" {view}>', *parts, "</svg>"]) + "\n"


def drawing(figure: Figure) -> str:
    """Draw the lines through their points; returns a whole SVG document."""
    frame = _Frame(
        [
            *(point for points in figure.lines.values() for point in points),
            *((x, end) for x, *ends in figure.bars for end in ends),
        ]
    )
    parts = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 18, figure.title, size=16),
        *frame.axes(figure.axes, figure.ticks),
        *(frame.bar(*bar) for bar in figure.bars),
    ]
    for number, (name, points) in enumerate(figure.lines.items()):
        parts.extend(frame.line(number, name, points))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Frame:
    """The plotting area, from zero (or below) to the largest values."""

    def __init__(self, points: Points) -> None:
        xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
        self.left, self.right = min(xs), max(xs)
        self.low, self.high = min(0.0, *ys), max(ys)
        if self.right == self.left:
            self.right = self.left + 1.0
        if self.high == self.low:
            self.high = self.low + 1.0

    def x(self, value: float) -> float:
        return LEFT + (value - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def axes(self, names: tuple[str, str], ticks: Sequence[str]) -> list[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = [
            _text(self.x(place), bottom + 20, name, anchor="middle", size=12)
            for place, name in enumerate(ticks)
        ]
        for step in range(6):
            value = self.low + (self.high - self.low) * step / 5
            y = self.y(value)
            parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
            parts.append(_text(LEFT - 8, y + 4, f"{value:.4g}", anchor="end"))
            if not ticks:
                at = self.left + (self.right - self.left) * step / 5
                parts.append(_text(self.x(at), bottom + 20, f"{at:.4g}", anchor="middle"))
        parts.append(f'<path d="M{LEFT} {TOP}V{bottom}H{right}" stroke="black" fill="none"/>')
        parts.append(_text((LEFT + right) / 2, HEIGHT - 12, names[0], anchor="middle"))
        parts.append(_text(LEFT, TOP - 8, names[1], size=12))
        return parts

    def bar(self, x: float, low: float, high: float) -> str:
        return f'<path d="M{self.x(x):.1f} {self.y(low):.1f}V{self.y(high):.1f}" stroke="#666"/>'

    def line(self, number: int, name: str, points: Points) -> list[str]:
        colour = COLOURS[number % len(COLOURS)]
        dashes = ' stroke-dasharray="6 4"' if number >= len(COLOURS) else ""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dots = points if len(points) <= MAX_DOTS else ()
        return [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>',
            *(
                f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{colour}"/>'
                for x, y in dots
            ),
            _text(WIDTH - RIGHT + 14, TOP + 14 + 20 * number, name, fill=colour),
        ]


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, fill: str = "#222"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{fill}">{escape(text)}</text>'
