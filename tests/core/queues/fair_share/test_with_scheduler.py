"""The tree inside the real scheduler: several platforms, sharing, loss, drain, explanations."""

from __future__ import annotations

from typing import Any

import pytest

from farm.core.dispatching.decisions import Decision
from farm.core.errors import InvariantError
from farm.core.model import Job, Platform
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from tests.worlds.virtual import Ledger

BOTH = ("amd64", "arm64")


class Teams(Ledger):
    """Jobs are charged by their names: "aa1" is of the team a and its user aa."""

    def __init__(self, *builders: str, stickiness: tuple[float, ...] = (), **rules: Any) -> None:
        tree = {
            "make_queue": lambda: FairShareQueue(stickiness),
            "path": PathExtractor(["team", "user"]),
        }
        super().__init__(*builders, dedup=True, explain_last=100, **{**tree, **rules})

    def job(
        self, name: str, service_time: float = 5.0, processor: str = "amd64", **more: Any
    ) -> Job:
        attributes = {"team": name[0], "user": name[:2]}
        platform = Platform(processor)
        return super().job(name, service_time, platform=platform, attributes=attributes, **more)

    def trees(self) -> list[Any]:
        return [lane.queue for lane in self.lanes]

    def explained(self, job: str) -> list[tuple[str, str, list[str]]]:
        """Return for each level: which went, why, and the rivals in their order."""
        decision = self.scheduler.dispatcher.decisions.get(job)
        assert isinstance(decision, Decision)
        assert all(turn.first for turn in decision.turns)
        return [(t.party.name, t.why, [r.name for r in t.rivals]) for t in decision.turns]


@pytest.fixture
def farm() -> Teams:
    """A farm without stickiness, and without builders."""
    return Teams()


# --- one platform -------------------------------------------------------------------------------


def test_cancelling_an_invocation(farm):
    """All of a team's jobs end, waiting and running, and its node goes."""
    farm.join("x")
    farm.submit("a0", "a1", "a2", "b")
    ended = farm.cancel(invocation=("a",))
    assert sorted(ended) == ["end a1 cancelled", "end a2 cancelled", "stop a0/1 on x"]
    assert farm.finish("a0", "cancelled") == ["end a0 cancelled", "start b/1 on x.0"]
    assert farm.trees()[0]._tree.find(("a",)) is None


def test_an_undrained_builder_has_been_free_the_shortest(farm):
    """The longest free goes first, also where no queue saw the undrain: nothing came before."""
    farm.join("x")
    farm.join("y")
    farm.drain("x")
    farm.undrain("x")
    assert farm.submit("a") == ["start a/1 on y.0"]
    assert farm.submit("b") == ["start b/1 on x.0"]


@pytest.mark.parametrize("fair", [True, False])
def test_a_follower_that_becomes_urgent_pulls_its_execution_along(ledger, fair):
    """A job that shares another's waiting execution may get a better place too."""
    farm = Teams() if fair else ledger(dedup=True)
    farm.submit("aa1")
    farm.submit("ab1", action="A")
    farm.submit("ac1", action="A")
    farm.prioritise("ac1", level=1)
    assert farm.join("x") == ["start ab1/1 on x.0"]
    farm.finish("ab1")
    assert farm.starts == ["aa1@x"]


def test_a_changed_priority_keeps_the_nodes_turn(farm):
    """Re-keying the only job of a user does not create its node anew: it keeps its age."""
    farm.join("x")
    for name in ("aa0", "ab1", "ac1"):
        farm.submit(name)
    farm.prioritise("ab1", score=3.0)
    farm.finish("aa0")
    assert farm.starts == ["ab1@x"]


# --- several platforms --------------------------------------------------------------------------


def test_a_slot_of_two_platforms_is_taken_once(farm):
    """A slot that runs a job of one platform is not offered to the other one's jobs."""
    farm.join("x", processors=BOTH)
    farm.submit("warm", processor="arm64")
    farm.finish("warm")
    assert farm.submit("a") == ["start a/1 on x.0"]
    assert farm.submit("b", processor="arm64") == []
    assert all(not tree._tree.root.free_slots for tree in farm.trees())
    assert farm.join("y", processors=BOTH) == ["start b/1 on y.0"]
    farm.finish("a")
    farm.finish("b")
    assert all(tree._tree.root.free_slots == 2 for tree in farm.trees())


def test_a_flood_on_one_platform_is_charged_on_the_other(farm):
    """Both serve one builder: the team with fewer slots goes first, though its job came last."""
    farm.submit("a1", "a2", "a3", "a4", processor="arm64")
    farm.submit("b1")
    farm.join("x", processors=BOTH, slots=2)
    assert farm.starts == ["a1@x", "b1@x"]
    farm.submit("b2")
    farm.finish("b1")
    assert farm.starts == ["b2@x"]


def test_the_first_level_that_differs_decides(farm):
    """Users of one team compete with each other, not with the team's other jobs."""
    farm.join("x", processors=BOTH, slots=3)
    farm.submit("aa1", "aa2", processor="arm64")
    farm.submit("ab1")
    farm.submit("aa3", processor="arm64")
    farm.submit("ab2")
    farm.finish("aa1")
    assert farm.starts == ["aa3@x"]  # one slot each: the older job
    farm.submit("aa4", processor="arm64")
    farm.finish("aa2")
    assert farm.starts == ["ab2@x"]


# --- whose turn it is, level by level, as `farm job --why` shows it -------------------------------


def test_the_share_decides_between_teams_and_the_turn_between_users():
    """A team with less running goes first, although another one's jobs came earlier."""
    farm = Teams("x", "y", "z")
    for name in ("au1", "au2", "bu1", "av1", "bv1", "bu2"):
        farm.submit(name)
    farm.finish("au1")
    assert farm.explained("av1") == [("a", "turn", ["b"]), ("av", "alone", [])]
    farm.finish("au2")
    assert farm.explained("bv1") == [("b", "alone", []), ("bv", "share", ["bu"])]
    assert farm.explained("au1") == [], "no other job waited"


def test_priority_weighs_against_share():
    """200 points are a factor of four: an urgent team may have two slots more."""
    farm = Teams("x", "y")
    for name, priority in (("a1", 0), ("a2", 0), ("b1", 0), ("a3", -200)):
        farm.submit(name, priority=priority)
    farm.finish("a1")
    assert farm.explained("a3")[0] == ("a", "share and priority", ["b"])


def test_stickiness_is_explained():
    """All alike: the slot stays with the team that it served last, for its time."""
    farm = Teams("x", "y", "z", stickiness=(1000.0,))
    for name in ("b1", "a1", "a2", "b2", "a3"):
        farm.submit(name)
    farm.finish("a1")
    assert farm.explained("a3")[0] == ("a", "stickiness", ["b"])


def test_a_waiting_job_lists_those_before_it():
    """Whose turn it is, before anything is decided."""
    farm = Teams("x", "y")
    for name in ("a1", "a2", "a3", "b1"):
        farm.submit(name)
    team, user = farm.trees()[0].turns(farm.scheduler.jobs["a3"])
    assert (team.party.name, team.party.executing, team.first, team.why) == ("a", 2, False, "share")
    assert [rival.name for rival in team.rivals] == ["b"]
    assert (user.first, user.why) == (True, "alone")


def test_an_explanation_names_at_most_five_rivals(farm):
    """A farm of a thousand teams would name them all at each decision."""
    farm.submit(*(f"{team}a1" for team in "abcdefgh"))
    farm.join("x")

    (team, _, rivals), _ = farm.explained("aa1")
    assert (team, rivals) == ("a", ["b", "c", "d", "e", "f"])


def test_a_slot_that_runs_a_job_is_not_free(farm):
    """Two jobs would share it, and the counts of both teams be wrong for good."""
    farm.join("x")
    farm.submit("aa1")
    slot = farm.scheduler.jobs["aa1"].slot

    with pytest.raises(InvariantError, match=r"slot x/0 runs a job"):
        farm.trees()[0].slot_free(slot, farm.at)


def test_an_order_that_is_being_read_keeps_the_jobs_that_leave(farm):
    """A sweep of estimates would miss a job, or count it twice."""
    farm.submit("aa1", "ab1", "ab2", "ba1")
    was = farm.waiting
    order = farm.trees()[0].order_kept()
    farm.cancel("ab1")
    farm.cancel("ba1")

    assert [state.job.id for portion in order for _, state in portion] == was
