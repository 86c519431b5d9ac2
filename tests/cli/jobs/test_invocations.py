"""``farm jobs --by team``: what each filter lists, read from a snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from farm.assembly import make_scheduler
from farm.cli.main import app
from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted, JobStarted
from farm.core.model import Builder, Job, Platform
from farm.core.state.snapshot import snapshot_of
from farm.live.operating.answers import FarmImage
from farm.scenario.load import parse_scenario
from farm.testing import small_scenario

AMD64, ARM64 = Platform("amd64", True), Platform("arm64", True)
SCENARIO = small_scenario(
    [{"name": "linux", "builders": 2}, {"name": "arm", "platform": {"processor": "arm64"}}],
    {"platform": {}},
    scheduling={"fair_share": ["team", "user"]},
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """At 100 s: done's builder idles, run's works, and two jobs wait for web's."""
    scenario = parse_scenario(SCENARIO)
    scheduler = make_scheduler(scenario)

    def job(name: str, team: str, platform: Platform = ARM64, **more: Any) -> Job:
        attributes = {"team": team, "user": "ann"}
        return Job(id=name, service_time=60.0, platform=platform, attributes=attributes, **more)

    def builder(name: str, processor: str, index: int) -> Builder:
        return Builder(id=name, pool=name[:-2], index=index, processors=(processor,))

    for event in (
        BuilderJoined(0.0, builder("linux-1", "amd64", 0)),
        JobsSubmitted(0.0, (job("d", "done", AMD64),)),
        JobStarted(0.0, "d", 1, "linux-1"),
        JobFinished(5.0, "d", 1, "linux-1", "succeeded"),
        BuilderJoined(6.0, builder("linux-2", "amd64", 1)),
        BuilderJoined(6.0, builder("arm-1", "arm64", 2)),
        JobsSubmitted(10.0, (job("r", "run", AMD64),)),
        JobsSubmitted(20.0, (job("q1", "web"),)),
        JobStarted(21.0, "q1", 1, "arm-1"),
        JobsSubmitted(40.0, (job("q2", "web", priority=3), job("q3", "app", declared_time=30.0))),
    ):
        scheduler.handle(event)
    plain = scenario.model_dump(mode="json", exclude_none=True)
    made = FarmImage(snapshot=snapshot_of(scheduler, 100.0), scenario=plain)
    path = tmp_path / "image.json"
    path.write_bytes(msgspec.json.encode(made))
    return path


def listed(image: Path, *words: str) -> dict[str, dict[str, Any]]:
    """Return what is listed, by processor."""
    rows = map(json.loads, shown(image, *words, "--json").splitlines())
    return {row["platform"].partition("/")[0]: row for row in rows}


def shown(image: Path, *words: str) -> str:
    """Return what is printed."""
    said = CliRunner().invoke(app, ["jobs", "--by", "team", *words, "--snapshot", str(image)])
    assert said.exit_code == 0, said.output
    return said.stdout


def names(row: dict[str, Any], what: str) -> list[str]:
    """Return whom or what a list names."""
    key = {"children": "path", "idle": "builder"}.get(what, "job")
    return [one[key][-1] if key == "path" else one[key] for one in row[what]]


def test_each_filter_lists_what_it_says(image: Path) -> None:
    """Protects the difference: executing jobs and idle builders were listed with each of them."""
    queued, active, everything = (
        listed(image, "--where", f"state={state}") for state in ("waiting", "live", "all")
    )
    lists, waiting = ("children", "queue", "executing", "idle"), ["q3", "q2"]
    assert [names(queued["arm64"], what) for what in lists] == [["app", "web"], waiting, [], []]
    assert [names(queued["amd64"], what) for what in lists] == [[], [], [], []]
    assert [names(active["arm64"], what) for what in lists] == [["app", "web"], waiting, ["q1"], []]
    assert [names(active["amd64"], what) for what in lists] == [["run"], [], ["r"], []]
    listed_all = [names(everything["amd64"], what) for what in lists]
    assert listed_all == [["done", "run"], [], ["r"], ["linux-1"]]
    assert everything == listed(image)
    for platform in ("amd64", "arm64"):
        for count in ("waiting", "executing_slots", "idle_slots"):
            assert queued[platform][count] == everything[platform][count], "counts are of all"


def test_a_queue_has_what_an_operation_has(image: Path) -> None:
    """In order of dispatch: priority, expected run time, and for how long it has waited or run."""
    found = listed(image, "--where", "state=live")["arm64"]
    assert [
        (q["job"], q["invocation"], q["priority"], q["estimated_time"], q["waiting_time"])
        for q in found["queue"]
    ] == [("q3", ["app", "ann"], 0, 30.0, 60.0), ("q2", ["web", "ann"], 3, 300.0, 60.0)]
    [runs] = found["executing"]
    assert (runs["job"], runs["builder"], runs["running_time"]) == ("q1", "arm-1", 79.0)
    text = shown(image, "--where", "invocation=web")
    assert "next to go  invocation  priority  expected  waiting" in text
    assert "q2          web / ann          3        5m       1m" in text
    assert "q3" not in text
