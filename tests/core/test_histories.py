"""Random histories, with late, repeated and unknown events: every promise holds after every event.

The ledger counts the farm anew after each event and runs the auditor; a history ends by letting
everything run out, so that no job can be left behind. A snapshot taken anywhere in a history gives
a scheduler that continues as the first one does.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core import policies
from farm.core.commands import IGNORED, SetAlarm
from farm.core.jobs import reordering
from farm.core.model import Platform
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.state.restore import restored
from farm.core.state.snapshot import snapshot_of, trees_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from tests.fixtures.examples import examples
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


def played(ledger, history, rules, pools=POOLS, **more):
    """Return the player of a farm with this history."""
    player = Player(ledger("b0", pools=pools, **rules, **more))
    player.play(history)
    return player


@examples(120, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, tree=trees, learning=LEARNING)
def test_no_history_breaks_a_promise(ledger, history, rules, tree, learning):
    """No job lost, each ends once, no slot over-filled, no job waits beside a free builder."""
    played(ledger, history, made(rules, tree), **learning).run_out()


class OnePlatform(Player):
    """All jobs are for one platform, so all wait in one queue."""

    def _job(self, dice):
        return msgspec.structs.replace(super()._job(dice), platform=Platform())


@examples(120, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, tree=trees.filter(lambda tree: tree is not None))
def test_a_tree_predicts_its_order_and_forgets_what_is_over(ledger, history, rules, tree):
    """Slots of a new builder take the jobs in the order shown; when all is over nothing is left."""
    farm = ledger("b0", **made(rules, tree))
    player = OnePlatform(farm)
    player.play([*history, *(("submit", seed) for seed in range(3))])
    farm.drain("*")
    predicted = farm.waiting
    farm.join("new", slots=len(predicted) + 1)
    assert farm.starts == [f"{name}@new" for name in predicted]
    player.run_out()
    for name in list(farm.scheduler.builders):
        farm.lose(name)
    (lane,) = farm.lanes
    assert lane.queue._tree.root.is_unused
    assert not lane.queue._executions.operations
    assert not lane.queue._tree.onlookers


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


@examples(120, phases=PHASES)
@given(
    before=histories,
    after=histories,
    # ageing by matrix remembers matrices forever, a snapshot those with live jobs
    rules=rules_of_a_farm.filter(lambda rules: rules["policy"] != "matrix"),
    tree=trees,
)
def test_a_restored_scheduler_continues_as_the_first_would(ledger, before, after, rules, tree):
    """A snapshot, through JSON and back: the same view, and the same commands from then on."""
    if tree is not None:
        # jobs of one node that share an execution stand where the first of them stood, even when
        # that one has left: the one thing that a snapshot of a tree does not keep
        rules = {**rules, "dedup": False}
    player = played(ledger, before, made(rules, tree))
    farm = player.farm
    first = farm.scheduler
    farm.restart()
    fork, farm.scheduler = farm.scheduler, first
    first.reorderer.finish(farm.at)  # a restored one has; the first does when it opens
    assert lane_by_lane(snapshot_of(fork, farm.at)) == lane_by_lane(snapshot_of(first, farm.at))
    so_far = len(farm.story)
    farm.open()
    player.play(after)
    for event, commands in farm.story[so_far:]:
        assert without_alarms(fork.handle(event)) == without_alarms(commands)


@examples(120, phases=PHASES)
@given(before=histories, after=histories, rules=rules_of_a_farm, tree=trees)
def test_a_farm_restored_with_an_older_memory_is_sound(ledger, before, after, rules, tree):
    """What a tree remembers is saved periodically: every count holds, and every job ends."""
    player = played(ledger, before, made(rules, tree))
    farm = player.farm
    older = trees_of(farm.scheduler)
    player.play(after)
    snapshot = msgspec.structs.replace(
        snapshot_of(farm.scheduler, farm.at), trees=older, trees_are_older=True
    )
    farm.scheduler = restored(snapshot, farm.rules, make_estimator("oracle"), pools=POOLS)
    player.run_out()


def without_alarms(commands):
    """Leave the alarms out: a restored scheduler does not know which are set, and sets new ones."""
    return [command for command in commands if not isinstance(command, SetAlarm)]


def test_ageing_by_matrix_survives_a_snapshot(ledger):
    """A late job of a matrix that still has live jobs goes before younger matrices."""

    def ageing():
        return policies.POLICIES["sjf-aging"](policies.PolicyOptions(aging="matrix"))

    farm = ledger(policy=ageing())
    farm.submit("a1", "a2", matrix="a")
    farm.submit("b1", matrix="b")
    farm.rules = ledger(policy=ageing()).rules
    farm.restart()
    farm.submit(farm.job("a3", 99.0, matrix="a"))
    assert farm.waiting == ["a1", "a2", "a3", "b1"]


@examples(60, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, old=trees, new=trees, name=keys)
def test_a_fork_under_other_rules_is_a_sound_farm(ledger, history, rules, old, new, name):
    """What-if: another policy, another tree or none; every count holds and every job ends."""
    player = played(ledger, history, made(rules, old))
    farm = player.farm
    farm.rules = ledger(**made({**rules, "policy": name}, new)).rules
    if new:
        farm.rules = msgspec.structs.replace(farm.rules, path=PathExtractor(["user"]))
    farm.restart(rekey=True)
    player.run_out()


@examples(60, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, tree=trees, learning=LEARNING)
def test_a_history_replays(ledger, history, rules, tree, learning):
    """The same events give the same commands, and are ignored alike."""
    farm = played(ledger, history, made(rules, tree), **learning).farm
    fresh = ledger(pools=POOLS, **made(rules, tree), **learning).scheduler
    again = [(event, fresh.handle(event)) for event, _ in farm.story]
    assert [(event, list(commands)) for event, commands in again] == farm.story
    assert all(not commands for _, commands in again if commands is IGNORED)
