"""Scheduling on a live farm: the same dispatch order as in the simulation, and a broken policy."""

from __future__ import annotations

from typing import Any

import pytest

from farm.assembly import complaints, make_scheduler
from farm.core.commands import EndJob, StartJob
from farm.core.events import JobsSubmitted
from farm.scenario.load import parse_scenario
from tests.worlds.both import play

BUILD = {"size": 4, "service_time": {"uniform": {"min": "4s", "max": "20s"}}}


def two_users() -> Any:
    """Two users with three builds each: a build of four jobs every ten seconds, in turn."""
    workload = [
        {
            "matrices": {
                **BUILD,
                "name": f"{user}-{build}",
                "attributes": {"user": user, "build": f"{user}-{build}"},
                "start": f"{10 * build + start}s",
                "every": "0s",
                "count": 1,
            }
        }
        for start, user in enumerate(["ann", "bob"])
        for build in range(3)
    ]
    return parse_scenario(
        {
            "name": "two-users",
            # no two events happen within a second of each other, a tenth of one on a live farm:
            # with the machine to itself its order is certain
            "seed": 380,
            "pools": [{"name": "linux", "platform": {"processor": "amd64"}, "builders": 2}],
            "workload": workload,
            "scheduling": {
                "policy": "ljf-aging",
                "fair_share": ["user", "build"],
                "stickiness": ["15s", "30s"],
                "runtime_estimates": "oracle",
            },
        }
    )


class Ledger:
    """Which jobs came together, in which order, and in which order they were dispatched."""

    def __init__(self) -> None:
        self.arrivals: list[list[str]] = []
        self.starts: list[str] = []
        self.ends: list[EndJob] = []

    def __call__(self, event: Any, commands: Any) -> None:
        if isinstance(event, JobsSubmitted):
            self.arrivals.append([job.id for job in event.jobs])
        self.starts += [c.job.id for c in commands if isinstance(c, StartJob)]
        self.ends += [c for c in commands if isinstance(c, EndJob)]


@pytest.mark.live
@pytest.mark.timed
def test_two_users_with_three_builds_each_are_dispatched_as_in_the_simulation() -> None:
    """Stickiness and ageing on: the same arrival order gives the same dispatch order."""
    scenario, simulated, live = two_users(), Ledger(), Ledger()
    play("simulated", scenario, simulated)
    play("live", scenario, live, speed=10.0)
    assert live.arrivals == simulated.arrivals
    assert len(simulated.starts) == 24
    assert live.starts == simulated.starts
    # and the order is neither that of one queue nor that of the users' turns alone
    plain = Ledger()
    words = {"fair_share": (), "stickiness": ()}
    scheduling = scenario.scheduling.model_copy(update=words)
    play("simulated", scenario.model_copy(update={"scheduling": scheduling}), plain)
    assert plain.starts != simulated.starts


def test_no_warnings_about_builtin_policies() -> None:
    """The project's own policies are not guarded and never warn."""
    assert complaints(make_scheduler(two_users())) == []
