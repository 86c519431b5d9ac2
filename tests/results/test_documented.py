"""docs/reference/results.md names every kind of line, every column and every key of a run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from farm.core.commands import log_name
from farm.results.descriptive_statistics import Spread
from farm.results.log.lines import COMMANDS, EVENTS
from farm.results.run_directory import Meta
from farm.results.summary.builder_time import BuilderCounts
from farm.results.summary.figures import JobCounts
from farm.results.summary.summary import Summary
from farm.results.table.job_table import COLUMNS

TEXT = (Path(__file__).parents[2] / "docs/reference/results.md").read_text(encoding="utf-8")


def missing(names: set[str]) -> set[str]:
    """Return the names that the page does not mention as code."""
    return {name for name in names if f"{name}`" not in TEXT}


def test_every_kind_of_line_is_documented() -> None:
    """A reader of the log finds every line on the page."""
    kinds = {log_name(struct) for struct in (*EVENTS, *COMMANDS)} - {"job-ended"}
    assert not missing(kinds)


def test_every_key_of_a_line_is_documented() -> None:
    """No key requires reading the source."""
    from farm.results.log import lines as log_lines

    lines = [line.written for line in (*log_lines.LINES.values(), log_lines.EMPTY)]
    keys = {field.encode_name for line in lines for field in msgspec.structs.fields(line)}
    assert not {key for key in keys if f"`{key}" not in TEXT}


def test_every_column_and_summary_key_is_documented() -> None:
    """Readers of tables and summaries never see the code."""
    structs = (Summary, JobCounts, BuilderCounts, Spread, Meta)
    keys = {field.encode_name for kind in structs for field in msgspec.structs.fields(kind)}
    assert not missing({*keys, *COLUMNS} - {"builders"})  # its keys are listed one by one
