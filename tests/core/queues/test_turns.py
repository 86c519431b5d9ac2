"""Whose turn it is, level by level: the explanation of a fair-share decision by `farm explain`."""

from typing import Any

from farm.core import events
from farm.core.dispatching.decisions import Decision
from farm.core.model import Builder, Job
from farm.core.queues.fair_share.keys import path_extractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime import make_estimator


class Farm:
    """Builders of one slot, jobs charged to team and user; each call is one second later."""

    def __init__(self, stickiness: tuple[float, ...] = ()) -> None:
        rules = SchedulingRules(
            make_queue=lambda: FairShareQueue(stickiness),
            path=path_extractor(("team", "user")),
            explain_last=100,
        )
        self.scheduler = Scheduler(rules, make_estimator("declared"))
        self.at = 0.0

    def handle(self, event: type, *given: Any, **named: Any) -> None:
        self.at += 1.0
        self.scheduler.handle(event(self.at, *given, **named))

    def join(self, *names: str) -> None:
        for index, name in enumerate(names):
            self.handle(events.BuilderJoined, Builder(id=name, pool="p", index=index))

    def submit(self, job: str, team: str, user: str = "u", **more: Any) -> None:
        attributes = {"team": team, "user": user}
        one = Job(id=job, service_time=9.0, attributes=attributes, **more)
        self.handle(events.JobsSubmitted, (one,))

    def end(self, job: str) -> None:
        state = self.scheduler.jobs[job]
        assert state.slot is not None
        builder = state.slot.builder.builder.id
        self.handle(events.JobFinished, job, state.attempts, builder, "succeeded")

    def said(self, job: str) -> list[tuple[str, str, list[str]]]:
        """Return for each level: which went, why, and the rivals in their order."""
        decision = self.scheduler.dispatcher.decisions.get(job)
        assert isinstance(decision, Decision)
        assert all(turn.first for turn in decision.turns)
        return [(t.party.name, t.why, [r.name for r in t.rivals]) for t in decision.turns]


def test_the_share_decides_between_teams_and_the_turn_between_users():
    """A team with less running goes first, although another one's jobs came earlier."""
    farm = Farm()
    farm.join("b1", "b2", "b3")
    farm.submit("a1", "ada", "u1")
    farm.submit("a2", "ada", "u1")
    farm.submit("b1", "bee", "u1")
    farm.submit("a3", "ada", "u2")
    farm.submit("b2", "bee", "u2")
    farm.submit("b3", "bee", "u1")
    farm.end("a1")
    assert farm.said("a3") == [("ada", "turn", ["bee"]), ("u2", "alone", [])]
    farm.end("a2")
    assert farm.said("b2") == [("bee", "alone", []), ("u2", "share", ["u1"])]
    assert farm.said("a1") == [], "no other job waited"


def test_priority_weighs_against_share():
    """200 points are a factor of four: an urgent team may have two slots more."""
    farm = Farm()
    farm.join("b1", "b2")
    farm.submit("a1", "ada")
    farm.submit("a2", "ada")
    farm.submit("b1", "bee", priority=0)
    farm.submit("a3", "ada", priority=-200)
    farm.end("a1")
    assert farm.said("a3")[0] == ("ada", "share and priority", ["bee"])


def test_stickiness_is_explained():
    """All alike: the slot stays with the team that it served last, for its time."""
    farm = Farm((1000.0,))
    farm.join("b1", "b2", "b3")
    farm.submit("b1", "bee")
    farm.submit("a1", "ada")
    farm.submit("a2", "ada")
    farm.submit("b2", "bee")
    farm.submit("a3", "ada")
    farm.end("a1")
    assert farm.said("a3")[0] == ("ada", "stickiness", ["bee"])


def test_a_waiting_job_lists_those_before_it():
    """Whose turn it is, before anything is decided."""
    farm = Farm()
    farm.join("b1", "b2")
    farm.submit("a1", "ada")
    farm.submit("a2", "ada")
    farm.submit("a3", "ada")
    farm.submit("b1", "bee")
    state = farm.scheduler.jobs["a3"]
    assert isinstance(state.lane.queue, FairShareQueue)
    team, user = state.lane.queue.turns(state)
    assert (team.party.name, team.party.executing, team.first, team.why) == (
        "ada", 2, False, "share",
    )  # fmt: skip
    assert [rival.name for rival in team.rivals] == ["bee"]
    assert (user.first, user.why) == (True, "alone")
