"""``farm admin audit``: a sound run passes; a log that contradicts itself is detected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from farm.cli.main import app

SCENARIO = """
name: audited
pools: [{name: linux, platform: {processor: amd64, virtualized: true}, builders: 2}]
workload:
  - matrices: {count: 3, size: 5, every: 10s, service_time: {exponential: {mean: 8s}}}
scheduling: {policy: ljf, fair_share: [user]}
"""


def farm(*words: str | Path) -> Result:
    """Run a command."""
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A simulated run in its own directory."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    done = farm("simulate", tmp_path / "scenario.yaml", "--out", tmp_path / "run", "--quiet")
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


def changed(run: Path, name: str, old: str, new: str) -> None:
    """Change the first such place in one of the run's files."""
    text = (run / name).read_text()
    assert old in text
    (run / name).write_text(text.replace(old, new, 1))


def test_a_run_is_sound_and_replays(run: Path) -> None:
    """The scheduler's decisions are made again, command by command."""
    assert "15 jobs; replayed the same" in farm("admin", "audit", run).stdout
    found = json.loads(farm("admin", "audit", run, "--json").stdout)
    assert (found["jobs"], found["wrong"], found["not_replayed"]) == (15, "", "")
    assert farm("admin", "audit", run, "--quiet").stdout == ""


def test_a_contradiction_fails_the_audit(run: Path) -> None:
    """A second attempt without a cause is named with its job."""
    changed(run, "events.jsonl", '"attempt":1', '"attempt":2')
    done = farm("admin", "audit", run)
    assert (done.exit_code or done.exception.exit_code) == 1  # type: ignore[union-attr]
    assert "attempt 2 follows attempt 0" in str(done.exception)
    told = farm("admin", "audit", run, "--json")
    assert told.exit_code == 1
    assert "attempt 2" in json.loads(told.stdout)["wrong"]


def test_another_policy_would_have_decided_otherwise(run: Path) -> None:
    """A consistent log may still not be this scenario's."""
    changed(run, "scenario.yaml", "policy: ljf", "policy: sjf")
    error = farm("admin", "audit", run).exception
    assert "a new scheduler decides otherwise at line" in str(error)


def test_what_cannot_be_replayed_is_audited_all_the_same(run: Path) -> None:
    """A policy defined elsewhere is no reason not to check the log."""
    changed(run, "scenario.yaml", "policy: ljf", "policy: somewhere.else:key")
    done = farm("admin", "audit", run)
    assert done.exit_code == 0
    assert "not replayed (" in done.stdout
