"""Changing the policy, ageing factor or weights of a running farm reorders the waiting jobs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.assembly import make_rules
from farm.core.events import SchedulingChanged
from farm.core.jobs import reordering
from farm.core.model import Job
from farm.core.state.restore import restored
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.scenario import parse_scenario
from farm.testing import small_scenario
from tests.worlds.virtual import Ledger


def farm(*builders: str, **scheduling: Any) -> Ledger:
    """A ledger whose rules are those of a scenario's ``scheduling``."""
    rules = make_rules(parse_scenario(small_scenario(scheduling=scheduling)))
    return Ledger(*builders, **{name: getattr(rules, name) for name in rules.__struct_fields__})


def test_another_policy_for_all_waiting_jobs() -> None:
    """Also for requeued jobs, and for those that arrive later."""
    one = farm("b")
    for name, time in (("first", 5.0), ("a", 30.0), ("b2", 10.0), ("c", 20.0)):
        one.submit(one.job(name, time))
    assert one.tell(SchedulingChanged(one.at, policy="sjf")) == []
    assert one.waiting == ["b2", "c", "a"]
    one.submit(one.job("d", 15.0))
    one.attempt_lost("first")
    assert one.waiting == ["b2", "d", "c", "a"]


def test_the_ageing_factor() -> None:
    """Longest first, but each second in the queue weighs as much as ten, or as none."""
    one = farm("b", policy="ljf-aging", aging_factor=0)
    one.submit("runs")
    one.submit(one.job("short", 10.0))
    one.submit(one.job("long", 15.0))
    assert one.waiting == ["long", "short"]
    one.tell(SchedulingChanged(one.at, aging_factor=10.0))
    assert one.waiting == ["short", "long"]


def test_weights_of_invocations() -> None:
    """With weight 3 a team gets three slots for each of the other's."""
    one = farm("b0", "b1", "b2", "b3", fair_share=["team"])
    for number in range(8):
        for team in ("web", "engine"):
            one.submit(one.job(f"{team}{number}", attributes={"team": team}))
    assert one.tell(SchedulingChanged(one.at, weights={"engine": 3.0})) == []
    for _ in range(4):
        one.finish(next(iter(one.running)))
    teams = sorted(name.rstrip("0123456789") for name in one.running)
    assert teams == ["engine", "engine", "engine", "web"]
    one.tell(SchedulingChanged(one.at, weights={"engine": 1.0}))
    assert one.scheduler.rules.choices.weights == {}


def test_jobs_that_share_an_execution_stay_together() -> None:
    """The shared execution waits at the best place of those that it serves."""
    one = farm("b", policy="score")
    one.submit("runs")
    one.submit(one.job("a", 10.0, action="x", score=1.0))
    one.submit(one.job("z", 5.0, score=2.0))
    one.submit(one.job("follower", 10.0, action="x", score=3.0))
    assert one.waiting == ["a", "z"]
    one.tell(SchedulingChanged(one.at, policy="sjf"))
    assert one.waiting == ["z", "a"]
    one.tell(SchedulingChanged(one.at, policy="score"))
    assert one.waiting == ["a", "z"]


@pytest.mark.parametrize(
    "change",
    [{"policy": "fifo"}, {"policy": "no_such:thing"}, {"policy": "unittest.__main__:x"}, {}],
)
def test_what_changes_nothing_is_ignored(change: dict[str, Any]) -> None:
    """The same again, or a policy that the scenario does not name: a message imports nothing."""
    one = farm("b")
    assert one.tell(SchedulingChanged(one.at, **change)) == "ignored"


def longest_id_first(job: Job, *_: object) -> float:
    """A policy of the scenario's own."""
    return -len(job.id)


def test_back_to_the_policy_of_the_scenario() -> None:
    """Its own function may be chosen again, as it was named there."""
    own = f"{__name__}:longest_id_first"
    one = farm("b", policy=own)
    for name, time in (("first", 5.0), ("long", 30.0), ("x", 10.0)):
        one.submit(one.job(name, time))
    one.tell(SchedulingChanged(one.at, policy="sjf"))
    assert one.waiting == ["x", "long"]
    one.tell(SchedulingChanged(one.at, policy=own))
    assert one.waiting == ["long", "x"]


def test_jobs_of_a_shared_execution_whose_first_has_left() -> None:
    """It was cancelled while it ran, and its builder was lost: the others wait and are sorted."""
    one = farm("b", fair_share=["team"])
    for name in ("first", "other"):
        one.submit(one.job(name, 10.0, action="x"))
    one.submit(one.job("short", 5.0))
    one.cancel("first")
    one.lose("b")
    one.tell(SchedulingChanged(one.at, policy="sjf"))
    assert one.waiting == ["short", "first"]  # it is named after its first job


def test_a_restored_farm_continues_with_the_changed_rules() -> None:
    """Unless its rules differ from those that the snapshot was taken under."""
    one = farm("b")
    one.submit("runs")
    one.submit(one.job("long", 20.0))
    one.submit(one.job("short", 10.0))
    one.tell(SchedulingChanged(one.at, policy="sjf"))
    snapshot, fresh = snapshot_of(one.scheduler, one.at), farm().rules
    again = restored(snapshot, fresh, make_estimator("oracle"))
    assert again.rules.choices.policy == "sjf"
    other = restored(snapshot, farm(policy="ljf").rules, make_estimator("oracle"), rekey=True)
    assert other.rules.choices.policy == "ljf"


def test_all_rules_are_those_of_the_book() -> None:
    """Rules that are replaced at run time hold for losses and failures, too."""
    one = farm("b", retries=2)
    one.submit("lost", one.job("failed", matrix="m"), one.job("rest", matrix="m"))
    book = one.scheduler.book
    book.rules = msgspec.structs.replace(book.rules, retries=0, fail_fast=True)
    assert one.attempt_lost("lost") == ["end lost failed", "start failed/1 on b.0"]
    assert one.finish("failed", "failed") == ["end failed failed", "end rest cancelled"]


def with_seven_jobs(**scheduling: Any) -> Ledger:
    """A farm of one builder, where seven jobs of two teams wait."""
    one = farm("b", **scheduling)
    one.submit("runs")
    for number, time in enumerate((70.0, 30.0, 60.0, 20.0, 50.0, 10.0, 40.0)):
        one.submit(one.job(f"j{number}", time, attributes={"team": str(number % 2)}))
    return one


def in_steps(monkeypatch: pytest.MonkeyPatch, **scheduling: Any) -> Ledger:
    """Such a farm that was told another policy, and has sorted three of its jobs."""
    monkeypatch.setattr(reordering, "AT_ONCE", 3)
    one = with_seven_jobs(**scheduling)
    assert one.tell(SchedulingChanged(one.at, policy="sjf")) == [f"alarm {one.at - 1:g}"]
    return one


@pytest.mark.parametrize("share", [[], ["team"]], ids=["plain", "fair share"])
def test_very_many_jobs_are_sorted_in_steps(
    monkeypatch: pytest.MonkeyPatch, share: list[str]
) -> None:
    """Each step is an alarm's; in the end they wait as if the policy had never been another."""
    wanted = with_seven_jobs(policy="sjf", fair_share=share).waiting
    one = in_steps(monkeypatch, fair_share=share)
    assert one.waiting != wanted
    while one.ring():
        pass
    assert one.waiting == wanted
    again = farm(fair_share=share).scheduler
    for event, commands in one.story:
        assert list(again.handle(event)) == commands


def test_dispatch_continues_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot takes the first job of the order so far, and a job that comes has its place."""
    one = in_steps(monkeypatch)
    first = one.waiting[0]
    assert one.finish("runs") == ["end runs succeeded", f"start {first}/1 on b.0"]
    one.submit(one.job("late", 35.0))
    while one.ring():
        pass
    wanted = ["j5", "j3", "j1", "late", "j6", "j4", "j2", "j0"]
    assert one.waiting == [name for name in wanted if name != first]


def test_a_scheduler_restored_between_two_steps_has_all_sorted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The alarm is lost with the old one; who replays the log does the rest when it opens again."""
    one, wanted = in_steps(monkeypatch), with_seven_jobs(policy="sjf").waiting
    snapshot = snapshot_of(one.scheduler, one.at)
    again = restored(snapshot, farm().rules, make_estimator("oracle"))
    one.open()
    for scheduler in (one.scheduler, again):
        waiting = snapshot_of(scheduler, one.at).waiting
        assert [record.job.id for record in waiting] == wanted
        assert scheduler.reorderer.unsorted is None


def test_jobs_that_arrive_between_two_steps_keep_their_keys_over_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They have new keys already: that of a shared execution is the best of its jobs."""
    one = in_steps(monkeypatch)
    one.submit(one.job("low", action="compile"), one.job("high", action="compile", level=1))
    assert one.finish("runs") == ["end runs succeeded", "start low/1 on b.0"]
    snapshot = snapshot_of(one.scheduler, one.at)
    again = restored(snapshot, farm().rules, make_estimator("oracle"))
    assert again.jobs["low"].key == one.scheduler.jobs["low"].key


def test_matrices_are_remembered_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that comes between two steps does not put its matrix behind later ones."""
    monkeypatch.setattr(reordering, "AT_ONCE", 1)
    one = farm("b", aging="matrix")
    one.submit("runs")
    for name, matrix in (("x", None), ("a1", "a"), ("c1", "c")):
        one.submit(one.job(name, matrix=matrix))
    one.tell(SchedulingChanged(one.at, policy="sjf-aging"))
    one.submit(one.job("a2", matrix="a"))
    while one.ring():
        pass
    assert one.waiting == ["x", "a1", "a2", "c1"]
