"""docs/reference/results.md names every kind of line, every column and every key of a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from farm.core.commands import log_name
from farm.results.descriptive_statistics import Spread
from farm.results.formatting import readable_percent, readable_ratio, readable_span
from farm.results.log.lines import COMMANDS, EMPTY, EVENTS, LINES
from farm.results.run_directory import Meta
from farm.results.summary.builder_time import BuilderCounts
from farm.results.summary.costs import JobCounts
from farm.results.summary.summary import Summary
from farm.results.table.job_table import COLUMNS
from farm.units import parse_time

TEXT = (Path(__file__).parents[2] / "docs/reference/results.md").read_text(encoding="utf-8")


def missing(names: set[str]) -> set[str]:
    """Return the names that the page does not mention as code."""
    return {name for name in names if f"{name}`" not in TEXT}


def test_every_line_and_its_keys_are_documented() -> None:
    """A reader of the log finds every kind of line on the page, and every key."""
    assert not missing({log_name(struct) for struct in (*EVENTS, *COMMANDS)} - {"job-ended"})
    lines = [line.written for line in (*LINES.values(), EMPTY)]
    keys = {field.encode_name for line in lines for field in msgspec.structs.fields(line)}
    assert not {key for key in keys if f"`{key}" not in TEXT}


def test_every_column_and_summary_key_is_documented() -> None:
    """Readers of tables and summaries never see the code."""
    structs = (Summary, JobCounts, BuilderCounts, Spread, Meta)
    keys = {field.encode_name for kind in structs for field in msgspec.structs.fields(kind)}
    assert not missing({*keys, *COLUMNS} - {"builders"})  # its keys are listed one by one


# --- Numbers for readers: units, few digits, and nothing for a missing value ----------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (float("inf"), "-"),
        (0.0, "0s"),
        (1e-9, "0s"),
        (5e-6, "0.005ms"),
        (0.35, "350ms"),
        (0.99999, "1s"),
        (12.34, "12.3s"),
        (59.96, "1m"),
        (245.0, "4m5s"),
        (3599.7, "1h"),
        (7380.0, "2h3m"),
        (200_000.0, "2d8h"),
        (1e300, "1e+300s"),
        (-4.0, "-4s"),
        (-7380.0, "-2h3m"),
    ],
)
def test_spans(seconds: float | None, text: str) -> None:
    """7380.0 does not look like two hours, and the text shown is valid as an option."""
    assert readable_span(seconds) == text
    if seconds is not None and 0 < seconds < 1e15:
        assert parse_time(text) == pytest.approx(seconds, rel=0.01, abs=1e-6)


def test_other_numbers() -> None:
    """Ratios and percentages."""
    assert (readable_ratio(1.23456), readable_ratio(12345.6)) == ("1.23", "12,346")
    assert readable_ratio(None) == readable_percent(None) == "-"
    assert readable_percent(0.1234) == "12.3 %"
    assert readable_percent(0.02, signed=True) == "+2.0 %"
    assert readable_percent(629.05, signed=True) == "630 times"
    assert readable_percent(-0.999, signed=True) == "-99.9 %"
