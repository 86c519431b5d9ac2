"""A live farm that shares fairly, seen by operators: jobs in order, invocations, turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.up import Up, scenario

pytestmark = pytest.mark.live

SHARED = scenario(scheduling="fair_share: [team, tool_invocation_id]")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Such a farm, which is down after the test whatever happens."""
    farm = Up(tmp_path, SHARED)
    with farm.running():
        yield farm


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_estimate_is_shown_at_submission(up: Up):
    """When it will be dispatched, how long it will run, when it will end; by source."""
    up.farm("submit", "--service-time", "10m", "--count", "3")
    up.until(lambda: up.status()["running"] == 2, "running")
    (told,) = up.rows("submit", "--service-time", "10m", "--id", "told")
    estimate = told["estimate"]
    assert (told["first"], estimate["job"], estimate["ahead"]) == (["told"], "told", 1)
    assert estimate["dispatch_in_s"] > 500
    assert estimate["completion_in_s"] == estimate["dispatch_in_s"] + estimate["run_time_s"]
    assert estimate["dispatch_in_p10_s"] <= estimate["dispatch_in_p90_s"]
    said = up.farm("submit", "--service-time", "10m", "--id", "said")
    assert said.splitlines()[0] == "said"
    assert " starts in " in said
    assert "(unproven: no job so told has started yet), runs " in said
    assert ", done by " in said
    listed = {row["job_id"]: row for row in up.rows("jobs")}
    assert listed["told"]["estimated_dispatch_in_p90_s"] > 500
    row = up.rows("job", "told")[0]
    assert row["estimated_completion_in_s"] > 500
    assert row["forecast"].startswith("told starts in ")
    assert row["estimated_dispatch_in_p90_s"] >= row["estimated_dispatch_in_s"]


def submit(up: Up, job: str, team: str, build: str, **more: Any) -> None:
    """Submit an hour's work of a team's build."""
    attributes = {"team": team, "tool_invocation_id": build}
    row = {"job_id": job, "service_time_s": 3600, "attributes": attributes, **more}
    up.farm("submit", "-", stdin=json.dumps(row) + "\n")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jobs_invocations_and_turns_of_a_live_farm(up: Up):
    """The first listed is the next dispatched; whose turn it is, and why, is shown by level."""
    for number in range(1, 5):
        submit(up, f"a{number}", "ada", "build-1")
    up.until(lambda: up.status()["running"] == 2, "running")
    submit(up, "b1", "bee", "build-2")
    submit(up, "b2", "bee", "build-3", priority=-100)
    up.until(lambda: up.status()["waiting"] == 4, "waiting")

    # by key alone a3 and a4 would go first; by share they go last
    waiting = [row["job_id"] for row in up.rows("jobs", "--state", "waiting")]
    assert waiting[:2] == ["b2", "b1"]

    (told,) = up.rows("jobs", "--by", "team", "--where", "state=waiting")
    assert [child["path"] for child in told["children"]] == [["bee"], ["ada"]]
    assert [one["job"] for one in told["queue"]] == waiting
    assert (told["executing_slots"], told["executing"]) == (2, [])
    (told,) = up.rows("jobs", "--by", "team", "--where", "state=live")
    assert {one["job"] for one in told["executing"]} == {"a1", "a2"}
    (bees,) = up.rows("jobs", "--by", "team", "--where", "invocation=bee,state=live")
    assert (bees["waiting"], bees["executing_slots"]) == (2, 0)
    assert [child["path"][-1] for child in bees["children"]] == ["build-2", "build-3"]
    assert "did you mean bee? there is: ada, bee" in up.farm(
        "jobs", "--by", "team", "--where", "invocation=bees", code=2
    )
    assert "found no tool_invocation_id 'x' in bee" in up.farm(
        "jobs", "--by", "team", "--where", "invocation=bee/x", code=2
    )
    assert "1 slot" not in up.farm("jobs", "--by", "team")
    waits = {row["name"]: row for row in up.rows("jobs", "--by", "invocation")}
    assert list(waits) == ["ada/build-1", "bee/build-2", "bee/build-3"]
    assert (waits["ada/build-1"]["waiting"], waits["ada/build-1"]["running"]) == (2, 2)
    assert waits["ada/build-1"]["mean_waiting_time_s"] >= 0
    assert waits["bee/build-2"]["mean_waiting_time_s"] is None
    assert waits["bee/build-2"]["longest_waiting_time_s"] > 0
    assert "longest now" in up.farm("jobs", "--by", "attribute.team")
    assert "allowed: team, user, kind" in up.farm("jobs", "--by", "colour", code=2)

    (why,) = json.loads(up.farm("job", "a3", "--why", "--json"))
    team, _ = why["turns"]
    assert (team["party"]["name"], team["first"], team["why"]) == (
        "ada",
        False,
        "share and priority",
    )
    assert [rival["name"] for rival in team["rivals"]] == ["bee"]
    assert "waits, by share and priority" in up.farm("job", "a3", "--why")

    # another level, and the order changes
    up.farm("set", "urgency=1", "--job", "a4")
    up.until(
        lambda: up.rows("jobs", "--state", "waiting", "--limit", "1")[0]["job_id"] == "a4",
        "another order",
    )
    up.farm("set", "urgency=0", "--job", "a4")
    up.until(
        lambda: up.rows("jobs", "--state", "waiting", "--limit", "1")[0]["job_id"] == "b2",
        "the old order",
    )
    assert "is not known" in up.farm("set", "urgency=1", "--job", "unknown", code=2)
    assert "found nothing to change" in up.farm("set", "--job", "a4", code=2)

    up.farm("cancel", "a1")
    up.until(lambda: up.state_of("b2") in ("dispatched", "running"), "dispatching")
    said = up.farm("job", "b2", "--why")
    assert "whose turn, level by level" in said
    assert "goes, by share and priority" in said

    up.farm("status", "--save", "now.json")
    charged = up.rows("jobs", "--state", "waiting", "--invocation", "bee/build-2")
    assert [(row["job_id"], row["invocation"]) for row in charged] == [("b1", "bee/build-2")]
    assert "did you mean bee?" in up.farm("cancel", "--invocation", "bees", code=2)
    up.farm("cancel", "--invocation", "bee")
    up.until(lambda: up.state_of("a3") in ("dispatched", "running"), "cancelling")
    assert [row["job_id"] for row in up.rows("jobs", "--state", "waiting")] == ["a4"]
    assert {up.state_of("b1"), up.state_of("b2")} <= {"cancelled", "cancelling"}
    up.until(lambda: up.state_of("b2") == "cancelled", "ended")
    assert "(2 had ended already)" in up.farm("cancel", "--invocation", "bee")
    (kept,) = up.rows("jobs", "--by", "team", "--snapshot", "now.json", "--where", "state=live")
    assert [child["path"] for child in kept["children"]] == [["ada"], ["bee"]]
