"""Fair share between lanes: a builder of two platforms, or heavy and light jobs, and priorities."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.commands import StartJob
from farm.core.events import BuilderJoined, Event, JobFinished, JobsSubmitted, PriorityChanged
from farm.core.model import Builder, Job, Platform
from farm.core.queues.fair_share.keys import path_extractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.plain import PlainQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle


class Farm:
    """A scheduler with fair share by team and user; a second passes between events."""

    def __init__(self, **rules: Any) -> None:
        tree = {"make_queue": FairShareQueue, "path": path_extractor(["team", "user"])}
        self.scheduler = Scheduler(SchedulingRules(**{**tree, "dedup": True, **rules}), Oracle())
        self.at = 0.0

    def tell(self, event: Event) -> list[str]:
        self.at = event.at + 1.0
        orders = self.scheduler.handle(event)
        return [order.job.id for order in orders if isinstance(order, StartJob)]

    def join(self, name: str, *processors: str, slots: int = 1) -> list[str]:
        builder = Builder(id=name, pool="p", index=0, processors=processors, slots=slots)
        return self.tell(BuilderJoined(self.at, builder))

    def submit(self, *names: str, processor: str = "amd64", **more: Any) -> list[str]:
        jobs = [
            Job(
                id=name,
                service_time=5.0,
                platform=Platform(processor),
                attributes={"team": name[0], "user": name[:2]},
                **more,
            )
            for name in names
        ]
        return self.tell(JobsSubmitted(self.at, tuple(jobs)))

    def finish(self, name: str) -> list[str]:
        slot = self.scheduler.jobs[name].slot
        assert slot is not None
        where = slot.builder.builder.id
        return self.tell(JobFinished(self.at, name, 1, where, "succeeded"))


def test_a_flood_on_one_platform_is_charged_on_the_other():
    """Both serve one builder: the team with fewer slots goes first, though its job came last."""
    farm = Farm()
    farm.submit("a1", "a2", "a3", "a4", processor="arm64")
    farm.submit("b1", processor="amd64")
    assert farm.join("x", "amd64", "arm64", slots=2) == ["a1", "b1"]
    farm.submit("b2", processor="amd64")
    assert farm.finish("b1") == ["b2"]


def test_the_first_level_that_differs_decides():
    """Users of one team compete with each other, not with the team's other jobs."""
    farm = Farm()
    farm.join("x", "amd64", "arm64", slots=3)
    farm.submit("aa1", "aa2", processor="arm64")
    farm.submit("ab1", processor="amd64")
    farm.submit("aa3", processor="arm64")
    farm.submit("ab2", processor="amd64")
    assert farm.finish("aa1") == ["aa3"]  # one slot each: the older job
    farm.submit("aa4", processor="arm64")
    assert farm.finish("aa2") == ["ab2"]


@pytest.mark.parametrize("fair", [True, False])
def test_a_follower_that_becomes_urgent_pulls_its_execution_along(fair):
    """A job that shares another's waiting execution may get a better place too."""
    plain: dict[str, Any] = {"make_queue": PlainQueue, "path": None}
    farm = Farm(**({} if fair else plain))
    farm.submit("aa1")
    farm.submit("ab1", action="A")
    farm.submit("ac1", action="A")
    farm.tell(PriorityChanged(farm.at, "ac1", level=1))
    assert farm.join("x", "amd64") == ["ab1"]
    assert farm.finish("ab1") == ["aa1"]


def test_a_changed_priority_keeps_the_nodes_turn():
    """Re-keying the only job of a user does not create its node anew: it keeps its age."""
    farm = Farm()
    farm.join("x", "amd64")
    farm.submit("aa0")
    farm.submit("ab1")
    farm.submit("ac1")
    farm.tell(PriorityChanged(farm.at, "ab1", score=3.0))
    assert farm.finish("aa0") == ["ab1"]
