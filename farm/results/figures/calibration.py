"""The slowdown that was measured, as a self-contained picture and as characters."""

from __future__ import annotations

from collections.abc import Sequence

from farm.scenario.calibration import Measurement

SVG = "http://www.w3.org/2000/svg"
WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 32, 40, 56
COLOUR = "#0072b2"
WIDEST_BAR = 40


def calibration_svg(measurements: Sequence[Measurement], title: str) -> str:
    """Draw slowdown over the number of heavy jobs, with the spread of the repeats; a whole SVG."""
    base = measurements[0].median_s
    frame = _Frame(len(measurements), max(one.spread_s[1] / base for one in measurements))
    line = " ".join(f"{frame.x(one.heavy):.1f},{frame.y(one.slowdown):.1f}" for one in measurements)
    parts = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, _escaped(title), size=15),
        *frame.axes(),
        f'<polyline points="{line}" fill="none" stroke="{COLOUR}" stroke-width="2"/>',
        *(part for one in measurements for part in frame.point(one, base)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def calibration_html(measurements: Sequence[Measurement], title: str) -> str:
    """Put the drawing into a page that needs nothing else."""
    drawing = calibration_svg(measurements, title)
    return (
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>Slowdown</title>\n"
        f"<body style='max-width:60em;margin:2em auto'>{drawing}</body></html>\n"
    )


def text_plot(measurements: Sequence[Measurement]) -> str:
    """Draw a bar for each number of heavy jobs."""
    most = max(one.slowdown for one in measurements)
    lengths = [max(1, round(one.slowdown / most * WIDEST_BAR)) for one in measurements]
    bars = [
        f"{one.heavy:5d} |{'#' * length} {one.slowdown:.2f}"
        for one, length in zip(measurements, lengths, strict=True)
    ]
    return "\n".join(["heavy  slowdown of the reference job", *bars])


class _Frame:
    """The plotting area: heavy jobs to the right, slowdown from 0 upwards."""

    def __init__(self, numbers: int, top: float) -> None:
        self.last = numbers - 1
        self.top = max(2.0, top * 1.05)

    def x(self, heavy: float) -> float:
        return LEFT + 20 + heavy / max(1, self.last) * (WIDTH - LEFT - RIGHT - 40)

    def y(self, slowdown: float) -> float:
        return HEIGHT - BOTTOM - slowdown / self.top * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        right, low = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = []
        for k in range(6):
            value = self.top * k / 5
            y = self.y(value)
            parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#ddd"/>')
            parts.append(_text(LEFT - 8, y + 4, f"{value:.1f}", anchor="end"))
        parts += [_text(self.x(k), low + 20, str(k), anchor="middle") for k in range(self.last + 1)]
        parts.append(f'<path d="M{LEFT} {TOP}V{low}H{right}" stroke="black" fill="none"/>')
        label = "heavy jobs on the builder; dots: median, bars: fastest to slowest repeat"
        parts.append(_text((LEFT + right) / 2, HEIGHT - 12, label, anchor="middle"))
        return parts

    def point(self, one: Measurement, base: float) -> list[str]:
        x = self.x(one.heavy)
        low, high = (self.y(seconds / base) for seconds in one.spread_s)
        return [
            f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{COLOUR}" stroke-width="1.5"/>',
            f'<circle cx="{x:.1f}" cy="{self.y(one.slowdown):.1f}" r="4" fill="{COLOUR}"/>',
        ]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 13) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="#222">{text}</text>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
