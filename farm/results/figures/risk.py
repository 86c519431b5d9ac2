"""Figure 4.1 as a self-contained picture: one line per heavy fraction over the number of slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SVG = "http://www.w3.org/2000/svg"
WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 56
#: distinguishable without colour vision (Okabe and Ito's palette)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def risk_svg(lines: Mapping[float, Sequence[float]]) -> str:
    """Draw f(n, p): for each p, its values at n = 1, 2, …; returns a whole SVG document."""
    slots = max(len(values) for values in lines.values())
    top = max(max(values) for values in lines.values())
    frame = _Frame(slots, top if top > 1 else 2.0)
    parts = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, "Expected slowdown of a builder filled at random", size=16),
        *frame.axes(),
        *(part for k, (p, values) in enumerate(lines.items()) for part in frame.line(k, p, values)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def risk_html(lines: Mapping[float, Sequence[float]]) -> str:
    """Put the drawing into a page that needs nothing else."""
    return (
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>Overload risk</title>\n"
        f"<body style='max-width:60em;margin:2em auto'>{risk_svg(lines)}</body></html>\n"
    )


def text_plot(lines: Mapping[float, Sequence[float]], rows: int = 14) -> str:
    """Draw the lines with characters: each is marked a, b, … and labelled below."""
    slots = max(len(values) for values in lines.values())
    top = max(1.0001, *(max(values) for values in lines.values()))
    grid = [[" "] * (3 * slots) for _ in range(rows)]
    for mark, values in zip("abcdefghijklmnopqrstuvwxyz", lines.values(), strict=False):
        for n, value in enumerate(values):
            row = round((value - 1) / (top - 1) * (rows - 1))
            grid[rows - 1 - row][3 * n + 2] = mark
    labels = [1 + (top - 1) * (rows - 1 - row) / (rows - 1) for row in range(rows)]
    body = [f"{label:6.2f} |{''.join(cells)}" for label, cells in zip(labels, grid, strict=True)]
    axis = "       +" + "-" * (3 * slots)
    numbers = "        " + "".join(f"{n:3d}" for n in range(1, slots + 1)) + "  slots"
    legend = "  ".join(
        f"{mark}: p = {p:g}" for mark, p in zip("abcdefghijklmnopqrstuvwxyz", lines, strict=False)
    )
    return "\n".join([*body, axis, numbers, "        " + legend])


class _Frame:
    """The plotting area: slots from 1 to the right, slowdown from 1 upwards."""

    def __init__(self, slots: int, top: float) -> None:
        self.slots = slots
        self.top = top

    def x(self, n: int) -> float:
        return LEFT + (n - 1) / max(1, self.slots - 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - 1) / (self.top - 1) * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        right, low = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = []
        for k in range(6):
            value = 1 + (self.top - 1) * k / 5
            y = self.y(value)
            parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
            parts.append(_text(LEFT - 8, y + 4, f"{value:.2f}", anchor="end"))
        every = -(-self.slots // 16)
        parts += [
            _text(self.x(n), low + 20, str(n), anchor="middle")
            for n in range(1, self.slots + 1, every)
        ]
        parts.append(f'<path d="M{LEFT} {TOP}V{low}H{right}" stroke="black" fill="none"/>')
        parts.append(
            _text((LEFT + right) / 2, HEIGHT - 12, "slots per builder (n)", anchor="middle")
        )
        return parts

    def line(self, index: int, fraction: float, values: Sequence[float]) -> list[str]:
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(f"{self.x(n):.1f},{self.y(v):.1f}" for n, v in enumerate(values, 1))
        end = self.y(values[-1]) + 4
        label = _text(self.x(len(values)) + 8, end, f"p = {fraction:g}", fill=colour)
        return [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            label,
        ]


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, fill: str = "#222"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{fill}">{text}</text>'
