"""The faster method of rollouts is used only where it gives the dispatches of the simulation."""

from __future__ import annotations

from typing import Any

import pytest

import farm
from farm.core.model import Job, Platform
from farm.testing import small_scenario


def estimating(*pools: tuple[list[str], int], **scheduling) -> dict[str, Any]:
    """Return a scenario with pools of one builder that estimates its dispatches by rollouts."""
    return small_scenario(
        [
            {"name": "".join(names), "platform": {"processors": names}, "slots": n}
            for names, n in pools
        ],
        {"platform": {"processor": "a"}},
        scheduling={"runtime_estimates": "oracle", **scheduling},
        estimates={"rules": ["rollout"]},
    )


def jobs_of(submitted_at: float, processor: str, *names: str, **more: Any) -> list[Job]:
    """Return jobs of 100 s."""
    platform = Platform(processor)
    return [
        Job(id=name, service_time=100.0, arrived_at=submitted_at, platform=platform, **more)
        for name in names
    ]


@pytest.mark.parametrize(
    ("scenario", "jobs", "waits_until"),
    [
        (
            estimating((["a"], 1), failures="launchpad"),
            [*jobs_of(0.0, "a", "A", fails=True), *jobs_of(1.0, "a", "B"), *jobs_of(2.0, "a", "C")],
            {"B": 400.0, "C": 500.0},
        ),
        (
            estimating((["a", "b"], 1), (["a"], 2), simultaneous_ends="together"),
            [
                *jobs_of(0.0, "a", "r1", "r2", "r3"),
                *jobs_of(1.0, "a", "A1"),
                *jobs_of(2.0, "b", "B1"),
            ],
            {"A1": 100.0, "B1": 100.0},
        ),
    ],
    ids=["failures are judged", "slots are free together"],
)
def test_a_rule_that_delays_dispatches_is_part_of_the_estimate(scenario, jobs, waits_until) -> None:
    """The faster method knows neither retries of failed jobs nor slots that wait for others."""
    estimated, dispatched = {}, {}
    for line in farm.simulate(scenario, jobs=jobs, keep_events=True).events:
        if line["event"] == "estimate-made":
            estimated[line["job"]] = line["dispatch_at_s"]
        elif line["event"] == "job-dispatched":
            dispatched.setdefault(line["job"], line["at_s"])
    assert {name: estimated[name] for name in waits_until} == waits_until
    assert {name: dispatched[name] for name in waits_until} == waits_until
