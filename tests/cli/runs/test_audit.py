"""``farm admin audit``: a sound run passes; a log that contradicts itself, or its run, does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.app.recorded.auditing import audit_run

SCENARIO = """
name: audited
pools: [{name: linux, platform: {processor: amd64, virtualized: true}, builders: 2}]
workload:
  - matrices: {count: 3, size: 5, every: 10s, service_time: {exponential: {mean: 8s}}}
scheduling: {policy: ljf, fair_share: [user]}
"""
EVENTS = "events.jsonl"


@pytest.fixture
def run(farm: Any, tmp_path: Path) -> Path:
    """A simulated run, in the working directory."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    assert farm("simulate", "scenario.yaml", "--out", "run", "--quiet").code == 0
    return tmp_path / "run"


def changed(path: Path, old: str, new: str) -> None:
    """Change the first such place in a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_run_is_sound_and_replays(farm: Any, run: Path) -> None:
    """The scheduler's decisions are made again, command by command."""
    assert "15 jobs; replayed the same" in farm("admin", "audit", "run").out
    found = json.loads(farm("admin", "audit", "run", "--json").out)
    assert (found["jobs"], found["wrong"], found["not_replayed"]) == (15, "", "")
    assert farm("admin", "audit", "run", "--quiet").out == ""


def test_a_contradiction_fails_the_audit(farm: Any, run: Path) -> None:
    """A second attempt without a cause is named with its job."""
    changed(run / EVENTS, '"attempt":1', '"attempt":2')
    done = farm("admin", "audit", "run")
    assert (done.code, "attempt 2 follows attempt 0" in done.err) == (1, True)
    told = farm("admin", "audit", "run", "--json")
    assert (told.code, "attempt 2" in json.loads(told.out)["wrong"]) == (1, True)


def test_another_policy_would_have_decided_otherwise(run: Path) -> None:
    """A consistent log may still not be this scenario's."""
    changed(run / "scenario.yaml", "policy: ljf", "policy: sjf")
    assert "a new scheduler decides otherwise at line" in audit_run(run).wrong


def test_what_cannot_be_replayed_is_audited_all_the_same(farm: Any, run: Path) -> None:
    """A policy defined elsewhere is no reason not to check the log."""
    changed(run / "scenario.yaml", "policy: ljf", "policy: somewhere.else:key")
    done = farm("admin", "audit", "run")
    assert (done.code, "not replayed (" in done.out) == (0, True)


def test_an_emptied_log_is_not_sound(farm: Any, run: Path) -> None:
    """Nor are lines that are none: only the beginning of one can be what a killed writer left."""
    (run / EVENTS).write_bytes(b"")
    assert "has no events" in audit_run(run).wrong
    (run / EVENTS).write_bytes(b"x" * 3_000_000)
    assert "line 1: not a line of an event log" in farm("admin", "audit", "run").err


def test_the_other_files_say_what_the_log_says(run: Path) -> None:
    """An outcome in jobs.csv, or a count in summary.json, that the log does not have."""
    changed(run / "jobs.csv", "succeeded", "cancelled")
    assert "is succeeded by events.jsonl, and cancelled by jobs.csv" in audit_run(run).wrong
    changed(run / "jobs.csv", "cancelled", "succeeded")
    summary = json.loads((run / "summary.json").read_bytes())
    (run / "summary.json").write_text(json.dumps(summary | {"events": 5}))
    assert "summary.json says 5" in audit_run(run).wrong


def test_a_long_running_farms_log_has_all_that_was_written(run: Path) -> None:
    """It has no summary: its position says how long it is."""
    changed(run / "meta.json", "finished", "running")
    size = (run / EVENTS).stat().st_size
    (run / "position").write_text(json.dumps({"commits": 5, "size": size}))
    assert audit_run(run).wrong == ""
    lines = (run / EVENTS).read_bytes().splitlines(keepends=True)
    (run / EVENTS).write_bytes(b"".join(lines[:-1]))
    assert f"{size:,} were written" in audit_run(run).wrong
