"""Random histories, with late, repeated and unknown events: every promise holds after every event.

The ledger's fixtures count the farm anew after each event and run the auditor; a history ends by
letting everything run out, so that no job can be left behind. A snapshot taken anywhere in a
history gives a scheduler that continues as the first one does.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.core import policies
from farm.core.commands import IGNORED, SetAlarm
from farm.core.jobs import reordering
from farm.core.queues.fair_share.keys import path_extractor
from farm.core.state.restore import restored
from farm.core.state.snapshot import FarmSnapshot, snapshot_of, trees_of
from farm.forecasts.runtime import make_estimator
from tests.fixtures.player import (
    PHASES,
    POOLS,
    Player,
    histories,
    keys,
    made,
    rules_of_a_farm,
    trees,
)

#: nothing is learned; or it is, and the queues are sorted by it
LEARNING = st.sampled_from([{}, {"estimates": "last-3", "sort_every": 4.0}])


@pytest.fixture(autouse=True, scope="module")
def small_steps():
    """Few jobs wait here: they too are sorted in several steps."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reordering, "AT_ONCE", 2)
        yield


@settings(max_examples=120, deadline=None, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, stickiness=trees, learning=LEARNING)
def test_no_history_breaks_a_promise(ledger, history, rules, stickiness, learning):
    """No job lost, each ends once, no slot over-filled, no job waits beside a free builder."""
    farm = ledger("b0", pools=POOLS, **made(rules, stickiness), **learning)
    player = Player(farm)
    for kind, number in history:
        player.play(kind, number)
    player.run_out()


def lane_by_lane(snapshot):
    """Return what must not change: the lanes in a fixed order, each with its jobs in theirs.

    How many running numbers a tree has given out may change: only their order means something.
    """
    lanes = sorted(snapshot.waiting, key=lambda view: str(view.job.platform))
    trees = sorted(
        ((*where, msgspec.structs.replace(tree, instants=0)) for *where, tree in snapshot.trees),
        key=str,
    )
    return msgspec.structs.replace(snapshot, waiting=tuple(lanes), trees=tuple(trees))


@settings(max_examples=120, deadline=None, phases=PHASES)
@given(
    before=histories,
    after=histories,
    # ageing by matrix remembers matrices forever, a snapshot those with live jobs
    rules=rules_of_a_farm.filter(lambda rules: rules["policy"] != "matrix"),
    stickiness=trees,
)
def test_a_restored_scheduler_continues_as_the_first_would(
    ledger, before, after, rules, stickiness
):
    """A snapshot, through JSON and back: the same view, and the same commands from then on."""
    if stickiness is not None:
        # jobs of one node that share an execution stand where the first of them stood, even when
        # that one has left: the one thing that a snapshot of a tree does not keep
        rules = {**rules, "dedup": False}
    farm = ledger("b0", pools=POOLS, **made(rules, stickiness))
    player = Player(farm)
    for kind, number in before:
        player.play(kind, number)
    taken = snapshot_of(farm.scheduler, farm.at)
    snapshot = msgspec.json.decode(msgspec.json.encode(taken), type=FarmSnapshot)
    fork = ledger(**made(rules, stickiness))
    fork.scheduler = restored(snapshot, fork.rules, make_estimator("oracle"), pools=POOLS)
    farm.scheduler.reorderer.finish(farm.at)  # a restored one has; the first does when it opens
    taken = snapshot_of(farm.scheduler, farm.at)
    assert lane_by_lane(snapshot_of(fork.scheduler, farm.at)) == lane_by_lane(taken)
    farm.open()
    opened, requests = farm.story[-1]
    assert without_alarms(fork.scheduler.handle(opened)) == without_alarms(requests)
    so_far = len(farm.story)
    for kind, number in after:
        player.play(kind, number)
    for event, orders in farm.story[so_far:]:
        answer = fork.scheduler.handle(event)
        assert without_alarms(answer) == without_alarms(orders)


@settings(max_examples=120, deadline=None, phases=PHASES)
@given(before=histories, after=histories, rules=rules_of_a_farm, stickiness=trees)
def test_a_farm_restored_with_an_older_memory_is_sound(ledger, before, after, rules, stickiness):
    """What a tree remembers is saved periodically: every count holds, and every job ends."""
    farm = ledger("b0", pools=POOLS, **made(rules, stickiness))
    player = Player(farm)
    for kind, number in before:
        player.play(kind, number)
    older = trees_of(farm.scheduler)
    for kind, number in after:
        player.play(kind, number)
    snapshot = msgspec.structs.replace(
        snapshot_of(farm.scheduler, farm.at), trees=older, trees_are_older=True
    )
    farm.scheduler = restored(snapshot, farm.rules, make_estimator("oracle"), pools=POOLS)
    player.run_out()


def without_alarms(orders):
    """Leave the alarms out: a restored scheduler does not know which are set, and sets new ones."""
    return [order for order in orders if not isinstance(order, SetAlarm)]


def test_ageing_by_matrix_survives_a_snapshot(ledger):
    """A late job of a matrix that still has live jobs goes before younger matrices."""
    options = policies.PolicyOptions(aging="matrix")
    farm = ledger(policy=policies.POLICIES["sjf-aging"](options))
    farm.submit("a1", "a2", matrix="a")
    farm.submit("b1", matrix="b")
    policy = policies.POLICIES["sjf-aging"](options)
    fork = ledger(policy=policy)
    view = snapshot_of(farm.scheduler, farm.at)
    farm.scheduler = restored(view, fork.rules, make_estimator("oracle"))
    farm.submit(farm.job("a3", 99.0, matrix="a"))
    assert farm.waiting == ["a1", "a2", "a3", "b1"]


@settings(max_examples=60, deadline=None, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, old=trees, new=trees, name=keys)
def test_a_fork_under_other_rules_is_a_sound_farm(ledger, history, rules, old, new, name):
    """What-if: another policy, another tree or none; every count holds and every job ends."""
    farm = ledger("b0", pools=POOLS, **made(rules, old))
    player = Player(farm)
    for kind, number in history:
        player.play(kind, number)
    snapshot = snapshot_of(farm.scheduler, farm.at)
    fork = ledger(**made({**rules, "policy": name}, new))
    if new:
        fork.rules = msgspec.structs.replace(fork.rules, path=path_extractor(["user"]))
    farm.scheduler = restored(
        snapshot, fork.rules, make_estimator("oracle"), pools=POOLS, rekey=True
    )
    player.run_out()


@settings(max_examples=60, deadline=None, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, stickiness=trees, learning=LEARNING)
def test_a_history_replays(ledger, history, rules, stickiness, learning):
    """The same events give the same commands, and are ignored alike."""
    farm = ledger(pools=POOLS, **made(rules, stickiness), **learning)
    player = Player(farm)
    for kind, number in history:
        player.play(kind, number)
    fresh = ledger(pools=POOLS, **made(rules, stickiness), **learning).scheduler
    again = [(event, fresh.handle(event)) for event, _ in farm.story]
    assert [(event, list(orders)) for event, orders in again] == farm.story
    assert all(not orders for _, orders in again if orders is IGNORED)
