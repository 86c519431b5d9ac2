"""The keeper as a ledger: wanted, requested and existing builders, and the resulting actions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.core.events import PoolSize
from farm.core.pools.algorithm import PoolSnapshot
from farm.live.wire.messages import GiveUpBuilder, Plan
from farm.live.wire.pool_report import PoolReport
from provisioner.algorithms.fixed import Fixed
from provisioner.algorithms.keda import Keda
from provisioner.algorithms.taskcluster import Taskcluster
from provisioner.reconciler import (
    Instance,
    Keeping,
    Launch,
    ReconcilerTimes,
    Remove,
    decide,
    describe_trouble,
    failed,
    reconcile,
)

PATIENCE = ReconcilerTimes(boot_timeout=60, first_pause=2, longest_pause=60, orphan_time=5)


def report(at: float = 0.0, **more: Any) -> PoolReport:
    """A pool at speed 1; counts follow from the requested and joined builders by default."""
    requested = more.pop("requested", {})
    joined = more.pop("joined", ())
    counts = {"booting": len(requested), "idle": len(joined)}
    heard = more.pop("heard", 0)
    chosen = more.pop("chosen", PoolSize())
    return PoolReport(
        chosen=chosen,
        snapshot=PoolSnapshot(pool="p", at=at, **{**counts, **more}),
        heard=heard,
        requested=requested,
        joined=tuple(joined),
    )


def box(builder: str, name: str = "", *, running: bool = True) -> Instance:
    """A container of the pool."""
    return Instance(
        name=name or f"c-{builder}", builder=builder, pool="p", running=running, detail="Exited (1)"
    )


def brief(actions: list[Any]) -> list[str]:
    """Write actions on one short line each."""
    lines = []
    for action in actions:
        match action:
            case Launch(builder):
                lines.append(f"launch {builder}")
            case Remove(instance, why):
                lines.append(f"remove {instance.name}: {why}")
            case GiveUpBuilder(builder):
                lines.append(f"give up {builder}")
    return lines


def look(keeping: Keeping, seen: PoolReport, boxes: list[Instance] | None, now: float):
    """Reconcile once; return what is remembered and the actions, briefly."""
    following, actions = reconcile(keeping, seen, boxes, now, PATIENCE)
    return following, brief(actions)


# --- plan against state -----------------------------------------------------------------


def test_a_plan_is_sent_once_and_then_waits_for_its_effect():
    """A report from before the last decision would make the keeper ask twice."""
    algorithm = Taskcluster(max=5, interval=1)
    keeping, sent = decide(algorithm, Keeping(), report(waiting_jobs=3), 0)
    why = "3 jobs beyond 0 idle slots"
    assert sent == Plan(pool="p", serial=1, desired=3, start=3, waiting=3, why=why, most=5)
    assert decide(algorithm, keeping, report(at=1, waiting_jobs=3), 1) == (keeping, None)
    seen = report(at=1, waiting_jobs=3, heard=1, requested={"a": 0, "b": 0, "c": 0})
    keeping, sent = decide(algorithm, keeping, seen, 1)
    assert sent is None
    assert keeping.next_at == 2


def test_a_plan_says_which_limit_determined_it():
    """A pool of ten "for 0 builders that are needed" is a riddle without its minimum."""
    algorithm = Taskcluster(min=2, max=5, interval=1)
    _, sent = decide(algorithm, Keeping(), report(), 0)
    assert (sent.desired, sent.least, sent.most, sent.why) == (
        2, 2, 5, "0 jobs beyond 0 idle slots; minimum 2",
    )  # fmt: skip
    _, sent = decide(algorithm, Keeping(), report(waiting_jobs=9), 0)
    assert (sent.desired, sent.why) == (5, "9 jobs beyond 0 idle slots; maximum 5")
    _, sent = decide(algorithm, Keeping(), report(waiting_jobs=3), 0)
    assert (sent.desired, sent.why) == (3, "3 jobs beyond 0 idle slots")


def test_the_interval_is_kept_in_farm_time():
    """Polling faster than the algorithm's interval does not make it decide more often."""
    algorithm = Fixed(builders=1, interval=10)
    keeping, sent = decide(algorithm, Keeping(), report(at=0), 0)
    assert sent is not None
    assert decide(algorithm, keeping, report(at=9, heard=1), 0) == (keeping, None)
    assert decide(algorithm, keeping, report(at=10, heard=1), 0)[0].next_at == 20


def test_the_first_plan_is_not_made_before_its_time():
    """Also where the provisioner starts late, or again: then it plans at once."""
    algorithm = Fixed(builders=1, interval=10, first_plan=27)
    keeping = Keeping()
    assert decide(algorithm, keeping, report(at=26), 0) == (keeping, None)
    keeping, sent = decide(algorithm, keeping, report(at=27), 0)
    assert sent is not None
    assert keeping.next_at == 37
    assert decide(algorithm, Keeping(), report(at=5000), 0)[1] is not None


def test_a_restarted_farm_is_planned_at_once():
    """Its time starts over: the next instant of the old farm must not block the new one."""
    keeping = Keeping(next_at=5000.0)
    assert decide(Fixed(builders=1, interval=10), keeping, report(at=3), 0)[1] is not None


def test_an_algorithms_memory_is_stored_as_json():
    """A restarted provisioner continues with its windows and cooldowns."""
    algorithm = Keda(max=10)
    keeping, _ = decide(algorithm, Keeping(), report(waiting_jobs=30), 0)
    again = msgspec.json.decode(msgspec.json.encode(keeping), type=Keeping)
    assert again == keeping
    assert again.memory not in ("", "{}")
    heard = report(at=20, waiting_jobs=30, heard=1)
    assert decide(algorithm, again, heard, 0) == decide(algorithm, keeping, heard, 0)


def test_another_algorithm_does_not_inherit_the_memory():
    """The scenario was changed between two starts."""
    keeping = Keeping(algorithm="Keda", memory='{"nonsense": true}')
    assert decide(Fixed(builders=2), keeping, report(), 0)[1].start == 2


def test_while_boots_fail_one_builder_at_a_time_is_requested_after_a_pause():
    """A broken image must not be started a thousand times."""
    keeping = failed(Keeping(), "no image", 100.0, PATIENCE)
    algorithm = Fixed(builders=5, interval=1)
    keeping, sent = decide(algorithm, keeping, report(at=1), 101.0)
    assert (sent.start, sent.desired) == (0, 5)
    assert "no image" in sent.why
    keeping, sent = decide(algorithm, keeping, report(at=2, heard=1), 103.0)
    assert sent.start == 1
    seen = report(at=3, heard=2, requested={"a": 2})
    assert decide(algorithm, keeping, seen, 104.0)[1] is None


def test_the_pause_doubles_and_is_bounded():
    """Bounded in both directions: neither a storm nor forever."""
    keeping, pauses = Keeping(), []
    for _ in range(8):
        keeping = failed(keeping, "x", 0.0, PATIENCE)
        pauses.append(keeping.not_before)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    assert describe_trouble(keeping, 10.0) == "8 boots failed in a row (x); next try in 50s"
    assert describe_trouble(keeping, 60.0) == "8 boots failed in a row (x); trying again"
    assert describe_trouble(Keeping(), 0.0) == ""


# --- requested against observed -----------------------------------------------------------------


def test_a_requested_builder_is_launched_until_there_is_an_instance():
    """The request is the scheduler's, the instance the backend's: neither is assumed."""
    seen = report(requested={"a": 0, "b": 0})
    assert look(Keeping(), seen, [], 0)[1] == ["launch a", "launch b"]
    assert look(Keeping(), seen, [box("a")], 0)[1] == ["launch b"]
    assert look(Keeping(), seen, [box("a"), box("b")], 0)[1] == []


def test_the_scheduler_is_told_how_an_instance_ended():
    """The loss of a builder that was stopped in order counts against no job."""
    for excused in (False, True):
        ended = msgspec.structs.replace(box("a", running=False), excused=excused)
        _, actions = reconcile(Keeping(), report(joined=["a"]), [ended], 9, PATIENCE)
        given_up = [action for action in actions if isinstance(action, GiveUpBuilder)]
        assert [action.excused for action in given_up] == [excused]


def test_an_instance_that_died_at_boot_is_removed_and_given_up():
    """And counts as a failed boot."""
    keeping, done = look(Keeping(), report(requested={"a": 0}), [box("a", running=False)], 9)
    assert done == ["remove c-a: exited", "give up a"]
    assert keeping.failures == 1
    assert keeping.not_before == 11
    assert "Exited (1)" in keeping.trouble
    keeping, done = look(keeping, report(requested={"a": 0}), [], 12)
    assert done == []  # not once more: it was given up


def test_a_joined_builder_whose_instance_died_is_given_up_at_once():
    """The scheduler need not wait for its silence; it is no failed boot."""
    keeping, done = look(Keeping(), report(joined=["a"]), [box("a", running=False)], 9)
    assert done == ["remove c-a: exited", "give up a"]
    assert keeping.failures == 0


@pytest.mark.parametrize("boxes", [None, [box("a")]])
def test_a_builder_that_never_joins_is_given_up_after_a_time_out(boxes):
    """In both kinds of backend; its instance is removed next, and not twice."""
    first = report(at=59, requested={"a": 0})
    keeping, done = look(Keeping(), first, boxes, 0)
    assert done == []
    keeping, done = look(keeping, report(at=61, requested={"a": 0}), boxes, 2)
    removal = [] if boxes is None else ["remove c-a: boot time-out"]
    assert done == ["give up a", *removal]
    # the report may be from before that was received
    keeping, done = look(keeping, report(at=62, requested={"a": 0}), boxes and [], 3)
    assert done == []
    assert keeping.failures == 1
    assert look(keeping, report(at=63), boxes and [], 4)[0].given_up == ()


def test_boot_time_and_speed_are_considered():
    """An emulated boot of two minutes at speed 10 takes 12 s, and then the time-out."""
    slow = msgspec.structs.replace(report(at=700, requested={"a": 0}), boot_time=120.0, speed=10.0)
    assert look(Keeping(), slow, None, 0)[1] == []
    late = msgspec.structs.replace(slow, snapshot=PoolSnapshot(pool="p", at=721))
    assert look(Keeping(), late, None, 0)[1] == ["give up a"]


def test_while_boots_fail_one_instance_at_a_time_is_tried():
    """Ten requests and a missing image: one try per pause."""
    keeping = failed(Keeping(), "no image", 0.0, PATIENCE)
    seen = report(requested={"a": 0, "b": 0})
    assert look(keeping, seen, [], 1)[1] == []
    assert look(keeping, seen, [], 3)[1] == ["launch a"]
    assert look(keeping, seen, [box("a")], 3)[1] == []


def test_a_builder_that_joins_ends_the_trouble():
    """The cause has been repaired."""
    keeping, _ = look(failed(Keeping(), "x", 0, PATIENCE), report(requested={"a": 0}), [], 3)
    keeping, _ = look(keeping, report(joined=["a"]), [box("a")], 4)
    assert (keeping.failures, keeping.not_before, keeping.trouble) == (0, 0.0, "")


@pytest.mark.parametrize("seen", [{"requested": {"a": 0}}, {"joined": ["a"]}])
def test_the_instance_of_a_builder_that_has_retired_is_removed_at_once(seen: dict[str, Any]):
    """With one use it may be gone before its joining was seen: that was no failed boot."""
    keeping = look(Keeping(), report(**seen), [box("a")], 0)[0]
    following, actions = look(keeping, report(), [box("a")], 1)
    assert actions == ["remove c-a: retired"]
    assert not following.failures


@pytest.mark.parametrize("set_back", [0, 86400])
def test_an_unknown_instance_is_an_orphan_after_a_time_out(set_back: int):
    """After a restart it is unknown; a scheduler that is just starting may still learn of it.

    The time-out runs from the first look by the clock as it is now.
    """
    keeping, _ = look(Keeping(), report(), [box("a")], set_back)
    keeping, done = look(keeping, report(), [box("a")], 0)
    assert done == []
    keeping, done = look(keeping, report(), [box("a")], 4)
    assert done == []
    assert look(keeping, report(), [box("a")], 5)[1] == ["remove c-a: orphan"]
    keeping, done = look(keeping, report(joined=["a"]), [box("a")], 5)
    assert done == []
    assert keeping.unknown_since == {}


def test_of_two_instances_of_one_builder_the_first_is_kept():
    """A launch that was repeated over a broken connection."""
    seen = report(requested={"a": 0})
    boxes = [box("a", "c-2"), box("a", "c-1")]
    assert look(Keeping(), seen, boxes, 0)[1] == ["remove c-2: orphan"]


def test_limits_that_an_operator_chose_hold_at_the_next_plan():
    """Above and below the algorithm's own; a min above the max is the max."""
    algorithm = Taskcluster(min=1, max=4, interval=10.0, scaling_ratio=1.0)
    for chosen, desired in (
        (PoolSize(), 4),
        (PoolSize(max=9), 9),
        (PoolSize(max=0), 0),
        (PoolSize(min=12, max=12), 12),
    ):
        _, plan = decide(algorithm, Keeping(), report(waiting_jobs=9, chosen=chosen), 0.0)
        assert (plan.desired if plan else 0) == desired


def test_an_unknown_instance_that_has_ended_is_removed_at_once():
    """Nothing can come of it any more."""
    assert look(Keeping(), report(), [box("a", running=False)], 0)[1] == ["remove c-a: exited"]
