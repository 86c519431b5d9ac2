"""Tables in files and pipes, which are laid out without rich."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console

from farm.terminal.cells import folding, numbers, styled, texts
from farm.terminal.plain_tables import NotPlainError, plain_text_of
from farm.terminal.tables import Listing, group, story

WORDS = (
    "",
    "a",
    "two words",
    "4.1s",
    "trailing  ",
    " leading",
    "été · 3",
    "x" * 30,
)


def by_rich(what: object, width: int) -> str:
    """Return what rich prints to a file."""
    file = io.StringIO()
    Console(file=file, width=width, markup=False, emoji=False, highlight=False).print(what)
    return file.getvalue()


def drawn(rng: random.Random) -> Listing:
    """Return a table drawn at random."""
    kinds = [rng.choice((texts, numbers, folding)) for _ in range(rng.randint(1, 5))]
    names = [rng.choice(("", "mean", "p95 wait")) for _ in kinds]
    columns = [column for kind, name in zip(kinds, names, strict=True) for column in kind(name)]
    rows = [
        [rng.choice((str, lambda word: styled(word, "bold")))(rng.choice(WORDS)) for _ in kinds]
        for _ in range(rng.randint(0, 4))
    ]
    about = {"mean": "the sum ÷ the number", "nothing": "that is not shown"}
    title, caption = rng.choice(("", "Jobs")), rng.choice(("", "two of them\nand more"))
    return Listing(columns, rows, title=title, caption=caption, about=about)


@pytest.mark.parametrize("width", [pytest.param(1000, marks=pytest.mark.slow), 40])
def test_a_pipe_shows_what_rich_would_print(width: int):
    """A table looks alike wherever it is read; rich lays out what is too wide, or of no content."""
    rng, plain = random.Random(7), 0
    for _ in range(400):
        table = drawn(rng)
        try:
            assert plain_text_of(table, width) == by_rich(table, width)
            plain += 1
        except NotPlainError:
            assert width < 1000 or not table.rows
    assert plain > 100


def test_texts_and_tables_below_each_other():
    """As a summary is: a title, names with values, and a table."""
    what = group(
        styled("triv", "bold"),
        story([("jobs", 6), ("took", "3ms")]),
        Listing((*texts(""), *numbers("mean")), [("wait", "5s")]),
        styled(""),
    )
    assert plain_text_of(what, 80) == by_rich(what, 80)
    assert plain_text_of(what, 80) == "triv\njobs  6\ntook  3ms\n      mean\nwait    5s\n\n"


@pytest.mark.parametrize("text", ["漢字", "a\x07b", "a\tb", "x" * 81])
def test_what_has_to_be_measured_is_left_to_rich(text: str):
    """Letters of another width, control characters that rich removes, lines that it folds."""
    with pytest.raises(NotPlainError):
        plain_text_of(group(styled(text)), 80)


def test_a_text_alone_is_never_folded():
    """The first sentence on a run is a line, also where COLUMNS says less."""
    assert plain_text_of(styled("x" * 200), 80) == "x" * 200 + "\n"
