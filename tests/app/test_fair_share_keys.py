"""Fair share by the invocations that records have, and the warning where they have none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import farm
from farm.records.bundle import write_bundle
from farm.testing import small_scenario
from farm_twin.importing import import_files

START = 1_793_600_000


def stamp(second: float) -> str:
    """Return an instant of the minutes after the start, as schedulers log it."""
    return f"2026-11-02T09:{int(second // 60):02}:{second % 60:06.3f}Z"


def actions(invocation: str, count: int, submitted_at: float) -> list[dict[str, Any]]:
    """Return completed actions of ten seconds each, submitted together by an invocation."""
    return [
        {
            "uuid": f"{invocation}-{number}",
            "historicalExecuteResponse": {
                "executeResponse": {
                    "result": {
                        "executionMetadata": {
                            "worker": "w",
                            "queuedTimestamp": stamp(submitted_at),
                            "workerStartTimestamp": stamp(submitted_at + 1),
                            "workerCompletedTimestamp": stamp(submitted_at + 11),
                            "auxiliaryMetadata": [
                                {"toolInvocationId": invocation, "correlatedInvocationsId": "ci"}
                            ],
                        }
                    }
                }
            },
        }
        for number in range(count)
    ]


def test_recorded_actions_share_by_their_invocations(tmp_path: Path):
    """Or a small build waits behind all of a large one, though buildbarn's rules were asked for."""
    log = tmp_path / "log.json"
    log.write_text(json.dumps([*actions("large", 40, 0.0), *actions("small", 2, 1.0)]))
    write_bundle(tmp_path / "records", import_files([log]))
    result = farm.simulate(
        {
            "like": "buildbarn",
            "pools": [{"name": "p", "platform": {"processor": "any"}, "builders": 2}],
            "workload": [{"trace": {"path": str(tmp_path / "records")}}],
        }
    )

    waits = [job["waiting_time_s"] for job in result.jobs if job["matrix"] == "small"]

    # a slot is its own from the first that becomes free
    assert len(waits) == 2
    assert max(waits) < 20.0
    assert not result.summary["warnings"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["team", "project"], ["no job has project", "jobs have authentication_metadata, team"]),
        (["matrix"], ["no job has matrix", "share one invocation"]),
        (["user"], ["no job has user"]),
        (["attribute:flavour"], ["no job has attribute:flavour"]),
        (["team", "kind", "platform", "authentication_metadata"], []),
    ],
)
def test_a_key_of_fair_share_that_no_job_has_is_a_warning(keys: list[str], told: list[str]):
    """All jobs then share one invocation there: the farm is not fair, and no figure shows it."""
    scenario = small_scenario(
        load={
            "kind": "build",
            "attributes": {"team": {"a": 1}, "authentication_metadata": {"x": 1}},
        },
        scheduling={"fair_share": keys},
    )

    summary = farm.simulate(scenario).kept.summary

    assert len(summary.warnings) == bool(told)
    assert all(part in summary.warnings[0] for part in told)
    # it is no failure
    assert summary.ended_well


def test_sweeps_and_plans_warn_of_a_key_that_no_job_has():
    """They compare settings of a farm that is not fair; of several seeds the warning is one."""
    scenario = small_scenario(load={"attributes": {"team": {"a": 1}}})
    keys = [["team"], ["project"]]
    found = farm.sweep(scenario, {"scheduling.fair_share": keys}, replications=3)
    plan = farm.plan(
        scenario, "p95(waiting_time) < 1h", replications=2, scheduling__fair_share=["project"]
    )
    for warnings in (found.sweep.warnings, plan.warnings):
        [warning] = warnings
        assert "no job has project, so all share one invocation there; jobs have team" in warning
    assert f"warning: {warning}" in found._repr_html_()
