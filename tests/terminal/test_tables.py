"""The tables of all commands: one style, within the width of the terminal, plain in a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from farm.terminal.cells import folding, numbers, texts
from farm.terminal.tables import Listing, story

FARM = Path(__file__).parents[2] / "farm"
COLUMNS = (*texts("job", "kind"), *numbers("mean wait", "cost"), *folding("why"))
ROWS = [
    ("nightly.amd64-000001", "build", "1h12m", "3.50", "it waited for a builder of its platform"),
    ("a", "test", "-", "0.01", ""),
]


def shown(table: Listing, width: int) -> list[str]:
    """Print a table on a terminal of this width."""
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue().splitlines()


def test_a_wide_table():
    """Numbers are aligned on the right, nothing is drawn and no line ends in blanks."""
    assert shown(Listing(COLUMNS, ROWS, title="Jobs", caption="two of them"), 200) == [
        "Jobs",
        "job                   kind   mean wait  cost  why",
        "nightly.amd64-000001  build      1h12m  3.50  it waited for a builder of its platform",
        "a                     test           -  0.01",
        "two of them",
    ]


@pytest.mark.parametrize(
    ("width", "first_line"),
    [
        (66, "                              mean"),
        (60, "job                   kind   cost  why"),
        (45, "job                   kind   cost"),
        (28, "job                   cost"),
        (20, "job             cost"),
    ],
)
def test_a_narrow_table(width: int, first_line: str):
    """On a narrow terminal headings break, texts fold and columns go, but no cell is cut."""
    lines = shown(Listing(COLUMNS, ROWS, first_to_go=("mean wait", "why", "kind")), width)
    assert lines[0] == first_line
    assert max(map(len, lines)) <= width
    assert {"nightly.amd64-", "3.50", "a", "0.01"} <= set(
        " ".join(lines).replace("-0", "- 0").split()
    )


def test_columns_that_are_left_out_are_named_and_not_explained():
    """A legend is of the columns that one sees."""
    about = {"cost": "cost: in hours", "mean wait": "mean wait: of all"}
    table = Listing(COLUMNS, ROWS, about=about, first_to_go=("mean wait", "why"))
    lines = shown(table, 45)
    assert lines[3] == "cost: in hours"
    assert (
        " ".join(" ".join(lines[4:]).split())
        == "hidden at this width: mean wait, why (all columns: | cat)"
    )
    assert shown(table, 200)[-1] == "cost: in hours; mean wait: of all"


def test_names_and_values_are_plain():
    """Control characters in names have no effect on the terminal."""
    [line] = shown(story([("kind\x1b[31m", "b\x07")]), 80)
    assert line == "kind\\x1b[31m  b\\x07"


def test_there_is_one_style_of_tables():
    """A command with its own table layout would look different."""
    own = [
        path.name for path in FARM.rglob("*.py") if "rich.table" in path.read_text(encoding="utf-8")
    ]
    assert own == ["table_layout.py"]
