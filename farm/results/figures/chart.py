"""Charts: matplotlib figures that look the same in a page, in a notebook and as a file.

Lines are distinguished by dashes and bars by hatching as well as by colours (Okabe and Ito's,
which colour-blind people can tell apart). Matplotlib, of the extra ``report``, is loaded by the
first chart.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from farm.core.errors import InputError, file_access
from farm.results.table.columns import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.2
#: the colour's name in a page, where it has a second value for dark screens
COLOURS = {
    "c0": "#0072b2", "c1": "#d55e00", "c2": "#009e73", "c3": "#b4588f", "c4": "#a87800",
    "c5": "#2b8cc4", "c6": "#1b1b1c", "ink": "#1b1b1b", "dim": "#6a6a6a", "grid": "#e2e2e2",
}  # fmt: skip
DARK = {
    "c0": "#56b4e9", "c1": "#ff8c42", "c2": "#2fc79b", "c3": "#e39bc4", "c4": "#f0b429",
    "c5": "#8fd0f5", "c6": "#e8e8e9", "ink": "#e8e8e8", "dim": "#a5a5a5", "grid": "#3a3a3a",
}  # fmt: skip
DASHES: Sequence[Any] = ("-", (0, (5, 2)), ":", "-.", (0, (2, 2)), (0, (1, 1)), (0, (8, 3)))
HATCHES = ("", "////", "....", "xxxx", "----", "\\\\\\\\")
SUFFIXES = (".svg", ".png", ".pdf")
_STYLE: Any = {
    "axes.edgecolor": COLOURS["dim"], "axes.axisbelow": True,
    "axes.spines.right": False, "axes.spines.top": False, "axes.labelcolor": COLOURS["dim"],
    "axes.titlesize": 10, "axes.titlecolor": COLOURS["ink"], "text.color": COLOURS["ink"],
    "font.size": 9, "hatch.linewidth": 0.5,
    "lines.linewidth": 1.4, "savefig.dpi": 160,
    "svg.fonttype": "none", "svg.hashsalt": "farm",
}  # fmt: skip
#: no date and no producer, so that the same numbers give the same file
_UNSAID = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_UNDATED = {"CreationDate": None}


class Chart:
    """A chart: its ``title``, and the matplotlib ``figure`` with its ``axes``.

    Raises InputError if matplotlib is not installed.
    """

    def __init__(self, title: str, x: str = "", y: str = "", height: float = 2.7) -> None:
        self.title = title
        with _style():
            self.figure: Figure = _figure((WIDTH, height))
            self.axes: Axes = self.figure.add_subplot()
        self.axes.tick_params(which="both", length=0, colors=COLOURS["ink"])
        self.axes.grid(color=COLOURS["grid"])
        self.axes.set_title(title, loc="left", wrap=True)
        self.axes.set(xlabel=x, ylabel=y)

    def line(self, name: str, xs: Sequence[float] | Floats, ys: Sequence[float] | Floats) -> None:
        """Draw a line through points, marking a few of them."""
        number = len(self.axes.lines)
        few = len(xs) <= 50
        looks = {"color": colour(number), "linestyle": DASHES[number % len(DASHES)]}
        self.axes.plot(xs, ys, label=label(name), **looks, marker="o" if few else "", markersize=3)

    def finished(self, *, legend: bool = True) -> Chart:
        """Return the chart with a legend below it."""
        if legend and self.axes.get_legend_handles_labels()[0]:
            self.figure.legend(loc="outside lower left", ncols=4, frameon=False)
        return self

    @property
    def changes(self) -> bool:
        """Whether it has anything but lines that stay at one height."""
        lines = self.axes.lines
        heights = (np.asarray(line.get_ydata(), np.float64) for line in lines)
        return not lines or any(len(np.unique(found)) > 1 for found in heights)

    @property
    def svg(self) -> str:
        """The SVG document, with a white background and plain colours."""
        return self._drawn("svg", facecolor="white").decode()

    @property
    def element(self) -> str:
        """The SVG element for an HTML page."""
        text = self._drawn("svg", transparent=True).decode()
        text = text[text.index("<svg ") :]
        text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
        text = re.sub(r'<g id="said:([^"]*)">', r"<g><title>\1</title>", text)
        text = re.sub(r'<g id="[a-z]\w*_\d+">', "<g>", text)
        text = re.sub(r' xmlns:xlink="[^"]*"', "", text).replace("xlink:href", "href")
        return text.replace("<svg ", f'<svg role="img" aria-label="{escape(self.title)}" ', 1)

    @property
    def themed(self) -> str:
        """The SVG element for a page with ``page_colours``: light or dark as the reader prefers."""
        text = self.element
        for name, value in COLOURS.items():
            text = text.replace(value, f"var(--{name})")
        return text

    def save(self, path: str | Path) -> Path:
        """Write the chart as SVG, PNG or PDF, by its suffix. Raises InputError on failure."""
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise InputError(f"{path}: allowed: a name that ends in {', '.join(SUFFIXES)}")
        with file_access(path):
            path.write_bytes(self._drawn(path.suffix[1:], facecolor="white"))
        return path

    def _drawn(self, kind: str, **looks: Any) -> bytes:
        file = io.BytesIO()
        metadata: Mapping[str, object] = {"svg": _UNSAID, "pdf": _UNDATED}.get(kind, {})
        with _style():
            for artist in self.figure.findobj():
                if hasattr(artist, "set_parse_math"):
                    artist.set_parse_math(False)  # names may have a $
            self.figure.savefig(file, format=kind, metadata=metadata, **looks)
        return file.getvalue()

    def _repr_svg_(self) -> str:
        """Show the chart in a notebook."""
        return self.svg

    def __repr__(self) -> str:
        return f"<farm.Chart: {self.title}>"


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - half a second, and an extra
    except ImportError:
        raise InputError(
            "figures need matplotlib; allowed: pip install 'build-farm-emulator[report]', this "
            "package with what draws"
        ) from None
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # names in scripts that the measuring font lacks; the reader's font draws them
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def _figure(size: tuple[float, float]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - likewise

    return Figure(size, layout="constrained")


def colour(number: int) -> str:
    """Return the colour of the line or bar of this number."""
    return COLOURS[f"c{number % 7}"]


def label(name: str, most: int = 30) -> str:
    """Return a name for a legend, which would leave out one that begins with an underscore."""
    short = name if len(name) <= most else name[: most - 1] + "…"
    return f" {short}" if short.startswith("_") else short


def page_colours() -> str:
    """Return the CSS rules that a page with inline charts needs."""

    def rule(colours: dict[str, str]) -> str:
        return "".join(f"--{name}:{value};" for name, value in colours.items())

    light, dark = rule(COLOURS), rule(DARK)
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "svg text{fill:var(--ink)}"
    )


def time_unit(longest: float) -> tuple[str, float]:
    """Return the unit that suits a span of farm time, and its length in seconds."""
    units = (("d", 86400.0, 3), ("h", 3600.0, 2), ("min", 60.0, 2), ("s", 1.0, 0))
    return next((unit, seconds) for unit, seconds, least in units if longest >= least * seconds)
