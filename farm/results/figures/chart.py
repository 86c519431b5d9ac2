"""Charts: matplotlib figures that look the same in a page, in a notebook and as a file.

Lines are distinguished by dashes and bars by hatching as well as by colours (Okabe and Ito's,
which colour-blind people can tell apart). Matplotlib is loaded by the first chart.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farm.columns import Floats
from farm.core.errors import InputError, file_access
from farm.results.figures.time_axis import (
    MOST_BESIDE_ROWS,
    MOST_SPANS,
    MOST_TICKS,
    WallClock,
    axis_name,
    time_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: inches; a page shows 1 pt as 1.2 px in the narrowest window, so text as 11 px
WIDTH = 4.2
#: the colour's name in a page, where it has a second value for dark screens
COLOURS = {
    "c0": "#0072b2", "c1": "#d55e00", "c2": "#009e73", "c3": "#b4588f", "c4": "#a87800",
    "c5": "#2b8cc4", "c6": "#16191e", "ink": "#16191f", "dim": "#4d5563", "grid": "#e1e4ea",
    "page": "#ffffff",
}  # fmt: skip
DARK = {
    "c0": "#56b4e9", "c1": "#ff8c42", "c2": "#2fc79b", "c3": "#e39bc4", "c4": "#f0b429",
    "c5": "#8fd0f5", "c6": "#e8eaed", "ink": "#e8eaee", "dim": "#a9b1be", "grid": "#262c37",
    "page": "#101318",
}  # fmt: skip
DASHES = ("-", (0, (5, 2)), ":", "-.", (0, (2, 2)), (0, (1, 1)), (0, (2, 4)))
#: numbers of colours and dashes: jobs and builders by their states
LOOKS = {
    "waiting": 4,
    "running": 0,
    "response": 0,
    "present": 0,
    "booting": 1,
    "desired": 6,
    "slots": 6,
}
HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\")
#: seconds within which a weekday is said of one day, or nearly
MOST_WEEKDAYS = 14 * 86400.0
#: rows of a heat map whose values a page holds
MOST_ROWS = 24
#: below lines and bars
SPINES = 0.9
SUFFIXES = (".svg", ".png", ".pdf")
_STYLE: Any = {
    "axes.edgecolor": COLOURS["dim"],
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.labelcolor": COLOURS["dim"],
    "axes.titlesize": 10,
    "axes.titlecolor": COLOURS["ink"],
    "text.color": COLOURS["ink"],
    "font.size": 9,
    "hatch.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "farm",
}
#: no date and no producer, so that the same numbers give the same file
_UNSAID = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_UNDATED = {"CreationDate": None}


class Chart:
    """A chart: its ``title``, and the matplotlib ``figure`` with its ``axes``.

    Raises InputError if matplotlib is not installed.
    """

    def __init__(self, title: str, x: str = "", y: str = "", height: float = 2.7) -> None:
        self.title = title
        with _style() as kind:
            self.figure = kind((WIDTH, height), layout="constrained")
            self.axes: Axes = self.figure.add_subplot()
        self.axes.tick_params(which="both", length=0, colors=COLOURS["ink"])
        self.axes.grid(color=COLOURS["grid"])
        for spine in self.axes.spines.values():
            spine.set_zorder(SPINES)  # a line along an axis is seen
        self.axes.set_title(title, loc="left", wrap=True)
        self.axes.set(xlabel=x, ylabel=y)
        #: name, colour, xs, ys; what else a page must know
        self._series: list[tuple[str, str, Floats, Floats]] = []
        self._about: dict[str, object] = {
            "time": False,
            "clock": None,
            "dated": False,
            "names": None,
            "rows": False,
            "unit": "",
            "x_unit": "",
            "most": MOST_SPANS,
        }

    def over_time(
        self, begin: float, end: float, clock: WallClock | None = None, *, rows: bool = False
    ) -> None:
        """Let x be instants from ``begin`` to ``end`` (seconds), by a clock if there is one.

        ``rows``: names of rows stand beside it.
        """
        if clock is not None and not clock.dated and end - begin > MOST_WEEKDAYS:
            clock = None
        most = MOST_BESIDE_ROWS if rows and clock else MOST_TICKS if clock else MOST_SPANS
        found = [*time_ticks(begin, end, clock, most)]
        self.axes.set_xlim(begin, end)
        self.axes.set_xticks([at for at, _ in found], [text for _, text in found])
        self.axes.set_xlabel(axis_name(clock))
        self._about |= {"time": True, "clock": None if clock is None else clock.shows}
        self._about |= {"dated": clock is not None and clock.dated, "most": most}

    def line(
        self,
        name: str,
        xs: Sequence[float] | Floats,
        ys: Sequence[float] | Floats,
        look: str = "",
    ) -> None:
        """Draw a line through points, marking a few of them.

        ``look``: a state of jobs or builders, which looks the same on every chart; else the line
        gets the next colour.
        """
        number = LOOKS.get(look, len(self._series))
        few = len(xs) <= 50
        [drawn] = self.axes.plot(
            xs,
            ys,
            label=label(name),
            color=colour(number),
            linestyle=DASHES[number % len(DASHES)],
            marker="o" if few else "",
            markersize=3,
        )
        if len(xs) == 1:  # a ring, which is seen around a point of another line
            drawn.set(linestyle="", markersize=9, markerfacecolor="none", markeredgewidth=1.6)
        self._keep(name, number, xs, ys)

    def heat(self, rows: Mapping[str, Floats], edges: Floats) -> None:
        """Draw rows of shares (0 to 1; NaN: none) between edges of x, darker where more."""
        values = np.array([*rows.values()])
        image = np.zeros((*values.shape, 4))
        image[..., :3] = (0.0, 0.45, 0.7)
        image[..., 3] = np.nan_to_num(values).clip(0.0, 1.0)
        span = (edges[0], edges[-1], len(rows) - 0.5, -0.5)
        self.axes.imshow(image, aspect="auto", interpolation="none", extent=span)
        self.axes.grid(visible=False)
        self.axes.set_yticks(range(len(rows)), [label(name, 22) for name in rows])
        self._about |= {"rows": True, "unit": " %"}
        if len(rows) <= MOST_ROWS:
            for name, shares in rows.items():
                self._keep(name, 0, (edges[1:] + edges[:-1]) / 2, np.round(100 * shares))

    def _keep(
        self, name: str, number: int, xs: Sequence[float] | Floats, ys: Sequence[float] | Floats
    ) -> None:
        """Keep the points of a line for the page."""
        xs, ys = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
        self._series.append((name, f"c{number % 7}", xs, ys))

    def finished(self) -> Chart:
        """Return the chart with a legend below it."""
        names = self.axes.get_legend_handles_labels()[1]
        if names:
            columns = int((WIDTH + 0.2) / (0.62 + 0.075 * max(map(len, names))))
            self.figure.legend(
                loc="outside lower left", ncols=max(1, min(4, columns)), frameon=False
            )
        return self

    @property
    def changes(self) -> bool:
        """Whether it has anything but lines, or rows, that stay at one height."""
        heights = [ys for _, _, _, ys in self._series]
        return not heights or any(len(np.unique(found)) > 1 for found in heights)

    @property
    def values(self) -> dict[str, object] | None:
        """What a page needs to show values and to zoom, once ``themed`` is made; None: nothing.

        ``box`` is the axes' left, top, width and height in the element's own units.
        """
        axes = self.axes
        if axes.get_yscale() != "linear" or not (self._series or self._about["time"]):
            return None
        place, (wide, high) = axes.get_position(), 72 * self.figure.get_size_inches()
        box = (place.x0 * wide, (1 - place.y1) * high, place.width * wide, place.height * high)
        lines = [
            {"name": name, "colour": colour, **_places(xs), "y": _rounded(ys)}
            for name, colour, xs, ys in self._series
        ]
        return self._about | {
            "box": [round(float(part), 2) for part in box],
            "x": [*map(float, axes.get_xlim())],
            "y": [*map(float, axes.get_ylim())],
            "log": axes.get_xscale() == "log",
            "lines": lines,
        }

    def spans(self) -> None:
        """Let x be spans of time (seconds)."""
        self._about["time"] = True

    def names(self, names: Sequence[str]) -> None:
        """Call 0, 1, 2, … on the x-axis by these names."""
        self.axes.set_xticks(range(len(names)), names)
        self._about["names"] = list(names)

    def units(self, x: str = "", y: str = "") -> None:
        """Say the units that a page writes behind the values, such as `` %``."""
        self._about |= {"x_unit": x, "unit": y}

    @property
    def svg(self) -> str:
        """The SVG document, with a white background and plain colours."""
        return self._drawn("svg", transparent=False).decode()

    @property
    def themed(self) -> str:
        """The SVG element for a page with ``page_colours``: light or dark as the reader prefers."""
        text = self._drawn("svg", transparent=True).decode()
        text = text[text.index("<svg ") :]
        text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
        text = re.sub(r'<g id="said:([^"]*)">', r"<g><title>\1</title>", text)
        text = text.replace('<g id="over">', '<g class="over">')
        text = re.sub(r'<g id="matplotlib\.axis_1">', '<g class="x">', text)
        text = re.sub(r'<g id="matplotlib\.axis_2">', '<g class="y">', text)
        text = re.sub(r'<g id="[xy]tick_\d+">', '<g class="tick">', text)
        text = re.sub(r'<g id="[a-z]\w*_\d+"(/?)>', r"<g\1>", text).replace("<g/>", "")
        text = re.sub(r" font-family: [^;]*;| +$", "", text, flags=re.MULTILINE)
        text = re.sub(r' xmlns:xlink="[^"]*"', "", text).replace("xlink:href", "href")
        text = text.replace("<svg ", f'<svg role="img" aria-label="{escape(self.title)}" ', 1)
        for name, value in COLOURS.items():
            text = text.replace(value, f"var(--{name})")
        return text

    def save(self, path: str | Path) -> Path:
        """Write the chart as SVG, PNG or PDF, by its suffix. Raises InputError on failure."""
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise InputError(f"{path}: allowed: a name that ends in {', '.join(SUFFIXES)}")
        kind = path.suffix[1:]
        picture = self._drawn(kind, transparent=False)
        if kind == "svg":
            picture = picture.replace(b"</style>", f"{_dark_rules()}</style>".encode(), 1)
        with file_access(path):
            path.write_bytes(picture)
        return path

    def _drawn(self, kind: str, *, transparent: bool) -> bytes:
        file = io.BytesIO()
        metadata: Mapping[str, object] = {"svg": _UNSAID, "pdf": _UNDATED}.get(kind, {})
        with _style():
            for artist in self.figure.findobj():
                if hasattr(artist, "set_parse_math"):
                    artist.set_parse_math(False)  # names may have a $
            face = "none" if transparent else COLOURS["page"]
            self.figure.savefig(
                file, format=kind, metadata=metadata, transparent=transparent, facecolor=face
            )
        return file.getvalue()

    def _repr_svg_(self) -> str:
        """Show the chart in a notebook."""
        return self.svg

    def __repr__(self) -> str:
        return f"<farm.Chart: {self.title}>"


class Charts(list[Chart]):
    """Charts that a notebook shows as pictures, one below the other."""

    def _repr_html_(self) -> str:
        pictures = (chart.svg[chart.svg.index("<svg ") :] for chart in self)
        return "".join(f"<div>{picture}</div>" for picture in pictures)


def _places(xs: Floats) -> dict[str, object]:
    """Return places on the x-axis: the first, the step and the number, if these say them."""
    if len(xs) > 2 and np.allclose(np.diff(xs), step := (xs[-1] - xs[0]) / (len(xs) - 1)):
        return {"steps": [float(xs[0]), float(step), len(xs)]}
    return {"x": _rounded(xs, 7)}


def _rounded(values: Floats, digits: int = 4) -> list[float | None]:
    """Return numbers with few digits, whole ones without a point; NaN is None."""
    texts = (float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values)
    return [int(one) if one is not None and one == int(one) else one for one in texts]


def _dark_rules() -> str:
    """Return the CSS rules of a picture for readers who prefer a dark page."""
    rules = "".join(
        f'[style*="{what}: {COLOURS[name]}"]{{{what}:{dark}!important}}'
        for name, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    text = f"text{{fill:{DARK['ink']}}}"
    return f"@media (prefers-color-scheme:dark){{{text}{rules}}}"


@contextmanager
def _style() -> Iterator[type[Figure]]:
    try:
        from matplotlib import figure, rc_context  # noqa: PLC0415 - it takes half a second
    except ImportError:
        raise InputError(
            "figures need matplotlib, which is not installed here, as in the image of the farm's "
            "services; allowed: pip install matplotlib, or draw a copy of the run elsewhere"
        ) from None
    with rc_context(_STYLE), warnings.catch_warnings():
        # names in scripts that the measuring font lacks; the reader's font draws them
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield figure.Figure


def colour(number: int) -> str:
    """Return the colour of the line or bar of this number."""
    return COLOURS[f"c{number % 7}"]


def label(name: str, most: int = 30) -> str:
    """Return a name for a legend, which would leave out one that begins with an underscore."""
    short = name if len(name) <= most else f"{name[: most // 2]}…{name[1 + most // 2 - most :]}"
    return f" {short}" if short.startswith("_") else short


def page_colours() -> str:
    """Return the CSS rules that a page with inline charts needs."""

    def rule(colours: dict[str, str]) -> str:
        return "".join(f"--{name}:{value};" for name, value in colours.items())

    light, dark = rule(COLOURS), rule(DARK)
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "svg text{fill:var(--ink)}"
    )


def time_unit(longest: float) -> tuple[str, float]:
    """Return the unit that suits a span of farm time, and its length in seconds."""
    units = (("d", 86400.0, 3), ("h", 3600.0, 2), ("min", 60.0, 2), ("s", 1.0, 0))
    return next((unit, seconds) for unit, seconds, least in units if longest >= least * seconds)
