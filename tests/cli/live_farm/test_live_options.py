"""The options that the commands for a live farm pass on to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from farm.app.runs import live_farm
from farm.cli.main import app
from farm.core.errors import RunError
from farm.core.events import DrainRequested
from farm.live.live_options import LiveOptions
from provisioner.embedded import EmbeddedProvisioner

SCENARIO = """
pools: [{name: p, platform: {processor: amd64}, builders: 1}]
workload: [{arrivals: {every: 1s, count: 1, service_time: 1s}}]
live: {speed: 7, hosts: 3, heartbeat: 2s, lost_after: 30s}
"""


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("run", ["--quiet", "--no-save"]),
        ("admin scheduler", ["--redis", "redis://127.0.0.1:1/0", "--hosts", "3"]),
    ],
)
def test_the_farm_is_set_up_as_the_scenario_says(
    command: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speed, hosts, their heartbeat, and how long they may be silent."""
    used: list[LiveOptions] = []

    def run_live(brain: Any, pools: Any, batches: Any, given: LiveOptions, _: Any) -> Any:
        used.append(given)
        raise RunError("enough seen")

    monkeypatch.setattr(live_farm, "run_live", run_live)
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    CliRunner().invoke(app, [*command.split(), str(path), *options])
    (found,) = used
    assert (found.speed, found.hosts) == (7.0, 3)
    assert (found.beat_interval, found.patience.silence) == (2.0, 30.0)


def test_the_event_log_of_a_live_run_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each turn the log is on the disk: a killed run has logged what happened."""
    seen: list[str] = []

    def run_live(*given: Any) -> Any:
        watchers = given[-1]
        watchers.observe(DrainRequested(1.5, "p-1"), [])
        watchers.on_tick(None)
        seen.append((tmp_path / "out" / "events.jsonl").read_text())
        raise RunError("enough seen")

    monkeypatch.setattr(live_farm, "run_live", run_live)
    monkeypatch.setattr(live_farm.LiveFarm, "control", Mock(), raising=False)
    monkeypatch.setattr(EmbeddedProvisioner, "tick", lambda *_: None)
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    CliRunner().invoke(app, ["run", str(path), "--quiet", "--out", str(tmp_path / "out")])
    assert seen == ['{"at_s":1.5,"event":"drain-requested","pattern":"p-1"}\n']
