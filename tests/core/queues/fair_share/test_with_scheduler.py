"""The tree inside the real scheduler: several platforms, sharing, loss, drain."""

from __future__ import annotations

import pytest

from farm.core.commands import EndJob, StartJob
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    CancelRequested,
    DrainRequested,
    JobFinished,
    JobsSubmitted,
    UndrainRequested,
)
from farm.core.model import Builder, Job, Platform
from farm.core.queues.fair_share.keys import path_extractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle


class Farm:
    """A scheduler with fair share by team and user, and its ledger of starts."""

    def __init__(self, limits=(), **rules):
        self.scheduler = Scheduler(
            SchedulingRules(
                make_queue=lambda: FairShareQueue(limits),
                path=path_extractor(["team", "user"]),
                dedup=True,
                **rules,
            ),
            Oracle(),
        )
        self.at = 0.0
        self.attempts = {}

    def handle(self, event, *args, **kwargs):
        """Handle an event; return which jobs it starts where."""
        self.at += 1.0
        orders = self.scheduler.handle(event(self.at, *args, **kwargs))
        starts = [order for order in orders if isinstance(order, StartJob)]
        self.attempts |= {order.job.id: (order.attempt, order.builder) for order in starts}
        self.ended = [order.job.id for order in orders if isinstance(order, EndJob)]
        return [(order.job.id, order.builder) for order in starts]

    def join(self, name, index=0, processors=("amd64", "arm64")):
        builder = Builder(id=name, pool="p", index=index, processors=processors)
        return self.handle(BuilderJoined, builder)

    def submit(self, *jobs):
        return self.handle(JobsSubmitted, tuple(jobs))

    def finish(self, name):
        attempt, builder = self.attempts[name]
        return self.handle(JobFinished, name, attempt, builder, "succeeded")

    def queues(self):
        return [lane.queue for lane in self.scheduler.dispatcher.matching.lanes]


def job(name, team="t", user="u", processor="amd64", action=None):
    """A job of a user."""
    return Job(
        id=name,
        service_time=5.0,
        platform=Platform(processor),
        attributes={"team": team, "user": user},
        action=action,
    )


@pytest.fixture
def farm():
    """A farm without stickiness."""
    return Farm()


def test_users_take_turns(farm):
    """A flood of one user does not delay another's first job by more than one."""
    assert farm.submit(*(job(f"a{n}", user="a") for n in range(5))) == []
    assert farm.submit(job("b0", user="b")) == []
    assert farm.join("x") == [("a0", "x")]
    assert farm.finish("a0") == [("b0", "x")]
    assert farm.finish("b0") == [("a1", "x")]


def test_a_slot_of_two_platforms_is_taken_once(farm):
    """A slot that runs a job of one platform is not offered to the other one's jobs."""
    farm.join("x")
    farm.submit(job("warm", processor="arm64"))
    farm.finish("warm")
    assert farm.submit(job("a")) == [("a", "x")]
    assert farm.submit(job("b", processor="arm64")) == []
    assert all(not queue._tree.root.free for queue in farm.queues())
    assert farm.join("y", 1) == [("b", "y")]
    farm.finish("a")
    farm.finish("b")
    assert all(queue._tree.root.free == 2 for queue in farm.queues())


def test_arrivals_go_to_the_nearest_builder(farm):
    """A user's job returns to the builder that ran the user's last one."""
    for index, name in enumerate("xyz"):
        farm.join(name, index)
    ran = {user: farm.submit(job(f"{user}0", user=user))[0][1] for user in "abc"}
    for user in "bac":
        farm.finish(f"{user}0")
    for user in "cab":
        assert farm.submit(job(f"{user}1", user=user)) == [(f"{user}1", ran[user])]


def test_shared_actions_survive_a_loss_and_a_cancel(farm):
    """One execution for two users; lost, it waits for both; the first leaves, the other stays."""
    farm.join("x")
    assert farm.submit(job("l", user="a", action="A")) == [("l", "x")]
    assert farm.submit(job("f", user="b", action="A")) == []
    (queue,) = farm.queues()
    assert len(queue._tree.root.executing) == 1
    farm.handle(BuilderLost, "x")
    assert (len(queue), queue._tree.root.waiting) == (1, 2)
    farm.handle(CancelRequested, ("l",))
    assert (farm.ended, len(queue), queue._tree.root.waiting) == (["l"], 1, 1)
    assert farm.join("y", 1) == [("f", "y")]
    farm.finish("f")
    assert farm.ended == ["f"]


def test_a_cancelled_leader_leaves_its_running_execution(farm):
    """Its user is no longer charged, and the slot's home is that of the remaining user."""
    farm.join("x")
    farm.submit(job("l", user="a", action="A"))
    farm.submit(job("f", user="b", action="A"))
    (queue,) = farm.queues()
    farm.handle(CancelRequested, ("l",))
    assert queue._tree.find(("t", "a")) is None
    farm.finish("l")
    assert [row.last for row in queue.memory().slots] == [("t", "b")]


def test_cancelling_an_invocation(farm):
    """All of a team's jobs end, waiting and running, and its node goes."""
    farm.join("x")
    farm.submit(*(job(f"a{n}", team="one") for n in range(3)), job("b", team="two"))
    farm.handle(CancelRequested, invocation=("one",))
    assert sorted(farm.ended) == ["a1", "a2"]
    assert farm.handle(JobFinished, "a0", 1, "x", "cancelled") == [("b", "x")]
    (queue,) = farm.queues()
    assert queue._tree.find(("one",)) is None


def test_drained_builders_keep_their_home(farm):
    """Drained by pattern, a builder takes nothing; undrained, it takes what waits."""
    farm.join("x")
    farm.submit(job("a"))
    farm.finish("a")
    farm.handle(DrainRequested, "x*")
    assert farm.submit(job("b")) == []
    assert farm.handle(UndrainRequested, "x*") == [("b", "x")]


def test_an_undrained_builder_has_been_free_the_shortest(farm):
    """The longest free goes first, also where no queue saw the undrain: nothing came before."""
    farm.join("x", 0)
    farm.join("y", 1)
    farm.handle(DrainRequested, "x")
    farm.handle(UndrainRequested, "x")
    assert farm.submit(job("a")) == [("a", "y")]
    assert farm.submit(job("b")) == [("b", "x")]
