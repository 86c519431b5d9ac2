"""Columns of tables: what the user maps, and what is known by its own name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.core.errors import TraceError
from farm.records.attempt import Attempt
from farm.records.importing import import_files
from farm.records.traces.foreign_table import read

HEADER = "id,asked_at,started_at,finished_at,runner,platform,queue"
TIMES = "2026-11-02T09:00:00Z,2026-11-02T09:00:10Z,2026-11-02T09:01:00Z"
ROW = f"7,{TIMES},m1,linux,q"


def only_attempt(folder: Path, text: str, **fields: str) -> Attempt:
    """Return the attempt of a table with one row."""
    path = folder / "jobs.csv"
    path.write_text(text)
    [attempt] = import_files([path], "csv", fields).attempts
    return attempt


def test_a_mapping_adds_to_the_columns_that_are_known_by_name(tmp_path: Path):
    """One --column made all others unknown: no job had an end, a runner or a platform."""
    attempt = only_attempt(tmp_path, f"{HEADER}\n{ROW}\n", submitted="asked_at")

    assert (attempt.waited, attempt.ran) == (10.0, 50.0)
    assert (attempt.id, attempt.runner, attempt.platform) == ("7", "m1", "linux")
    # what nothing is known of is no attribute of each job
    assert attempt.attributes == {}


def test_a_mapping_adds_to_a_trace_of_such_a_table(tmp_path: Path):
    """The trace of a scenario knows the columns that the doctor knows."""
    path = tmp_path / "jobs.csv"
    path.write_text(f"{HEADER}\n{ROW}\n")

    records = read(path, {"submitted": "asked_at"})

    assert records.service.tolist() == [50.0]
    assert str(records.details["platform"].values[0]) == "linux/virtual"
    assert records.happened is not None
    assert records.happened.waited.tolist() == [10.0]


def test_what_is_mapped_is_not_looked_for_by_name(tmp_path: Path):
    """Where a column has the name of a time but is another one, the user has the last word."""
    text = f"started_at,begun,finished_at\n{TIMES}\n"

    attempt = only_attempt(tmp_path, text, submitted="started_at", started="begun")

    assert (attempt.waited, attempt.ran) == (10.0, 50.0)


def test_a_time_that_two_columns_are_called_after_is_none_of_them(tmp_path: Path):
    """A guess between them would be as wrong as it is silent."""
    text = f"asked_at,start_time,started_at\n{TIMES}\n"

    with pytest.raises(TraceError, match="found no column for started"):
        only_attempt(tmp_path, text, submitted="asked_at")


def test_a_column_may_stand_for_two_times(tmp_path: Path):
    """Jobs that could start when they were submitted: the second was "found no column"."""
    fields = {"submitted": "asked_at", "eligible": "asked_at", "kind": "queue", "matrix": "queue"}

    attempt = only_attempt(tmp_path, f"{HEADER}\n{ROW}\n", **fields)

    assert attempt.submitted_at == attempt.eligible_at
    assert (attempt.kind, attempt.matrix) == ("q", "q")


def test_a_member_of_json_may_stand_for_two_times_too(tmp_path: Path):
    """The same mapping works whatever the records are written in."""
    path = tmp_path / "jobs.jsonl"
    path.write_text(json.dumps(dict(zip(HEADER.split(","), ROW.split(","), strict=True))))

    bundle = import_files([path], "jsonl", {"submitted": "asked_at", "eligible": "asked_at"})

    [attempt] = bundle.attempts
    assert (attempt.submitted_at, attempt.waited) == (attempt.eligible_at, 10.0)
