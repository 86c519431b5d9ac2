"""``farm admin audit`` holds a log against the other files of its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.app.api import simulate
from farm.app.recorded.replays import audit_run
from farm.core.errors import InputError
from farm.testing import small_scenario

EVENTS = "events.jsonl"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of nine jobs."""
    simulate(small_scenario({"builders": 2}, {"count": 9}), out=tmp_path / "run")
    assert audit_run(tmp_path / "run").wrong == ""
    return tmp_path / "run"


def changed(path: Path, **changes: object) -> None:
    """Change values of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


def test_an_emptied_log_is_not_sound(run: Path):
    """Nor is one that lacks jobs, though its lines are consistent."""
    (run / EVENTS).write_bytes(b"")
    assert "has no events" in audit_run(run).wrong


def test_a_log_of_no_lines_is_no_log(run: Path):
    """Only the beginning of a line can be what a killed writer left."""
    (run / EVENTS).write_bytes(b"x" * 3_000_000)
    with pytest.raises(InputError, match="line 1: not a line of an event log"):
        audit_run(run)


def test_the_other_files_say_what_the_log_says(run: Path):
    """An outcome in jobs.csv, or a count in summary.json, that the log does not have."""
    jobs, summary = (run / name for name in ("jobs.csv", "summary.json"))
    text = jobs.read_text()
    jobs.write_text(text.replace("succeeded", "cancelled", 1))
    assert "is succeeded by events.jsonl, and cancelled by jobs.csv" in audit_run(run).wrong
    jobs.write_text(text)
    changed(summary, events=5)
    assert "summary.json says 5" in audit_run(run).wrong


def test_a_long_running_farms_log_has_all_that_was_written(run: Path):
    """It has no summary: its position says how long it is."""
    changed(run / "meta.json", state="running")
    size = (run / EVENTS).stat().st_size
    (run / "position").write_text(json.dumps({"commits": 5, "size": size}))
    assert audit_run(run).wrong == ""
    lines = (run / EVENTS).read_bytes().splitlines(keepends=True)
    (run / EVENTS).write_bytes(b"".join(lines[:-1]))
    assert f"{size:,} were written" in audit_run(run).wrong
