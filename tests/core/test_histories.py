"""Random histories, with late, repeated and unknown facts: every promise holds after every fact.

The ledger's fixtures count the farm anew after each fact and ask the auditor; a history ends by
letting everything run out, so that no job can be left behind. A snapshot taken anywhere in a
history gives a scheduler that goes on as the first one does.
"""

from __future__ import annotations

from itertools import chain, islice
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from farm.core import platform_queue, policies, portions
from farm.core.balancer import RANKINGS
from farm.core.commands import IGNORED, StartJob
from farm.core.dispatch_estimator import RULES, estimate_queue, in_steps
from farm.core.dispatch_estimator.farm_snapshot import view_of
from farm.core.dispatch_estimator.in_steps import QueueSweep, RunTimes
from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    CancelRequested,
    JobsSubmitted,
    LoadReported,
    PriorityChanged,
)
from farm.core.fair_share import replay
from farm.core.fair_share.keys import path_extractor
from farm.core.fair_share.queue import FairShareQueue
from farm.core.look_ahead import LookAheadQueue
from farm.core.model import Builder, Job, Platform
from farm.core.platform_queue import PlainQueue
from farm.core.restoration import restored
from farm.core.runtime_estimators import make_estimator
from farm.core.snapshot import FarmSnapshot, snapshot_of

#: hypothesis' explanations take long and say little about a history
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
PROCESSORS = (None, "amd64", "arm64")
VIRTUAL = (True, True, True, False, None)
BUILDS = (("amd64",), ("arm64",), ("amd64", "arm64"), ())


class Player:
    """Turns numbers into facts that make some sense, and some that do not."""

    def __init__(self, farm):
        self.farm = farm
        self.jobs = 0
        self.builders = 0

    def play(self, kind, number):
        getattr(self, kind)(Random(number))

    # --- jobs -------------------------------------------------------------------------------

    def submit(self, dice):
        jobs = tuple(self._job(dice) for _ in range(dice.choice([1, 1, 1, 2, 5])))
        self.farm.tell(JobsSubmitted(self.farm.at, jobs))

    def _job(self, dice):
        twice = f"j{self.jobs}" in self.farm.scheduler.jobs and dice.random() < 0.05
        self.jobs += not twice  # now and then one is handed in twice
        matrix, action = dice.choice([None, "m", "n"]), dice.choice([None, None, "A", "B"])
        return Job(
            id=f"j{self.jobs}",
            service_time=dice.choice([1.0, 5.0, 60.0]),
            platform=Platform(dice.choice(PROCESSORS), dice.choice(VIRTUAL)),
            level=dice.choice([0, 0, 0, 1]),
            score=float(dice.randrange(3)),
            priority=dice.choice([0, 0, 100]),
            matrix=matrix,
            action=action,
            attributes={"team": dice.choice("ab"), "user": dice.choice("uvw")},
        )

    def _running(self, dice):
        running = sorted(self.farm.running)
        return dice.choice(running) if running else "nobody"

    def started(self, dice):
        self.farm.started(self._running(dice))

    def finish(self, dice):
        outcome = dice.choice(["succeeded", "succeeded", "failed", "cancelled"])
        self.farm.finish(self._running(dice), outcome)

    def finish_cancelled(self, dice):
        stopping = [
            n for n, s in self.farm.scheduler.jobs.items() if s.status.value == "cancelling"
        ]
        if stopping:
            self.farm.finish(dice.choice(stopping), dice.choice(["cancelled", "succeeded"]))

    def attempt_lost(self, dice):
        self.farm.attempt_lost(self._running(dice))

    def stale(self, dice):
        starts = [o for _, orders in self.farm.story for o in orders if isinstance(o, StartJob)]
        if starts:
            old = dice.choice(starts)
            say = dice.choice([self.farm.started, self.farm.finish, self.farm.attempt_lost])
            say(old.job.id, attempt=old.attempt, builder=dice.choice([old.builder, "b1", "no"]))

    def cancel(self, dice):
        jobs = sorted(self.farm.scheduler.jobs) or ["nobody"]
        names = [dice.choice(jobs) for _ in range(dice.choice([1, 1, 3]))]
        self.farm.cancel(*names)

    def cancel_many(self, dice):
        invocation = dice.choice([None, ("a",), ("b", "u")])
        matrix = dice.choice([None, "m", "n"])
        self.farm.tell(CancelRequested(self.farm.at, (), matrix, invocation))

    def prioritise(self, dice):
        change = dice.choice([{"level": 1}, {"level": 0}, {"score": 2.0}, {"priority": -100}])
        self.farm.prioritise(dice.choice(sorted(self.farm.scheduler.jobs) or ["nobody"]), **change)

    # --- builders ---------------------------------------------------------------------------

    def join(self, dice):
        self.builders += dice.random() < 0.95
        what = {"processors": dice.choice(BUILDS), "virtualized": dice.random() < 0.8}
        what |= {"cleans": dice.random() < 0.3, "takes_jobs": dice.random() < 0.9}
        what |= {"slots": dice.choice([1, 1, 2, 4]), "pool": "pq"[self.builders % 2]}
        self.farm.join(f"b{self.builders}", index=100 + self.builders, **what)

    def _builder(self, dice):
        return dice.choice([*sorted(self.farm.scheduler.builders), "nobody"])

    def requested(self, dice):
        number = self.builders + dice.choice([0, 1])
        self.farm.requested(f"b{number}", "pq"[number % 2])

    def lose(self, dice):
        self.farm.lose(self._builder(dice))

    def retired(self, dice):
        self.farm.retired(self._builder(dice))

    def idle(self, dice):
        self.farm.idle(self._builder(dice))

    def drain(self, dice):
        pattern = dice.choice([self._builder(dice), "b?", "*"])
        self.farm.drain(pattern, retire=dice.random() < 0.3)

    def undrain(self, dice):
        self.farm.undrain(dice.choice([self._builder(dice), "*"]))

    def cleaned(self, dice):
        builders = self.farm.scheduler.builders.items()
        dirty = [(name, s.number) for name, b in builders for s in b.slots if s.cleaning]
        name, slot = dice.choice(dirty) if dirty else ("nobody", 0)
        self.farm.cleaned(name, slot + (dice.random() < 0.1))

    def load(self, dice):
        self.farm.tell(LoadReported(self.farm.at, self._builder(dice), 0.7, dice.random() < 0.5))

    # --- the end ----------------------------------------------------------------------------

    def run_out(self):
        """Give every job a builder and every attempt its end."""
        farm = self.farm
        farm.undrain("*")
        for native in (True, False):
            farm.join(f"last-{native}", index=9000 + native, processors=("amd64", "arm64"),
                      virtualized=not native)  # fmt: skip
        for _ in range(10 * (self.jobs + 1)):
            for builder in list(farm.scheduler.builders.values()):
                for slot in builder.slots:
                    if slot.cleaning:
                        farm.cleaned(builder.builder.id, slot.number)
            running = sorted(farm.running)
            if not running:
                break
            for name in running:
                farm.finish(name)
        assert farm.scheduler.jobs == {}
        farm.auditor.close()


KINDS = [name for name in vars(Player) if name[0] != "_" and name not in ("play", "run_out")]
OFTEN = ["submit"] * 6 + ["finish"] * 6 + ["join"] * 2 + ["cleaned"] * 2 + ["finish_cancelled"]
facts = st.tuples(st.sampled_from(KINDS + OFTEN), st.integers(0, 2**32))
histories = st.lists(facts, min_size=10, max_size=70)
keys = st.sampled_from(sorted(policies.POLICIES))
rules_of_a_farm = st.fixed_dictionaries(
    {
        "policy": st.sampled_from([*sorted(policies.POLICIES), "matrix"]),
        "ranking": st.sampled_from([RANKINGS["jenkins"], RANKINGS["longest-idle"]]),
        "retries": st.integers(0, 3),
        "fail_fast": st.booleans(),
        "dedup": st.booleans(),
        "explain_last": st.sampled_from([0, 5]),
    }
)
trees = st.sampled_from([None, (), (3.0,), (0.0, 20.0)])


def made(rules, stickiness):
    """Return the rules of a farm, with a policy that remembers nothing yet."""
    name = rules["policy"]
    options = policies.PolicyOptions(seed=3)
    if name == "matrix":
        name, options = "ljf-aging", policies.PolicyOptions(aging="matrix")
    rules = {**rules, "policy": policies.POLICIES[name](options)}
    if stickiness is not None:
        rules["make_queue"] = lambda: FairShareQueue(stickiness)
        rules["path"] = path_extractor(["team", "user"])
    return rules


@settings(max_examples=120, deadline=None, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, stickiness=trees)
def test_no_history_breaks_a_promise(ledger, history, rules, stickiness):
    """No job lost, each ends once, no slot over-filled, nobody waits beside a free builder."""
    farm = ledger("b0", **made(rules, stickiness))
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
    # ageing by matrix remembers matrices for ever, a snapshot those with live jobs
    rules=rules_of_a_farm.filter(lambda rules: rules["policy"] != "matrix"),
    stickiness=trees,
)
def test_a_restored_scheduler_goes_on_as_the_first_would(ledger, before, after, rules, stickiness):
    """A snapshot, through JSON and back: the same view, and the same orders ever after."""
    if stickiness is not None:
        # jobs of one node that share an execution stand where the first of them stood, even when
        # that one has left: the one thing that a snapshot of a tree does not keep
        rules = {**rules, "dedup": False}
    farm = ledger("b0", **made(rules, stickiness))
    player = Player(farm)
    for kind, number in before:
        player.play(kind, number)
    taken = snapshot_of(farm.scheduler, farm.at)
    snapshot = msgspec.json.decode(msgspec.json.encode(taken), type=FarmSnapshot)
    fork = ledger(**made(rules, stickiness))
    fork.scheduler = restored(snapshot, fork.rules, make_estimator("oracle"))
    assert lane_by_lane(snapshot_of(fork.scheduler, farm.at)) == lane_by_lane(taken)
    so_far = len(farm.story)
    for kind, number in after:
        player.play(kind, number)
    for event, orders in farm.story[so_far:]:
        answer = fork.scheduler.handle(event)
        assert list(answer) == orders


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
    farm = ledger("b0", **made(rules, old))
    player = Player(farm)
    for kind, number in history:
        player.play(kind, number)
    snapshot = snapshot_of(farm.scheduler, farm.at)
    fork = ledger(**made({**rules, "policy": name}, new))
    if new:
        fork.rules = msgspec.structs.replace(fork.rules, path=path_extractor(["user"]))
    farm.scheduler = restored(snapshot, fork.rules, make_estimator("oracle"), rekey=True)
    player.run_out()


@settings(max_examples=100, deadline=None, phases=PHASES)
@given(
    before=histories,
    after=histories,
    rules=rules_of_a_farm,
    stickiness=trees,
    look_ahead=st.booleans(),
    steps=st.integers(0, 10),
)
def test_a_kept_order_stays_as_it_was(ledger, before, after, rules, stickiness, look_ahead, steps):
    """Whoever looks at a queue in small steps sees one moment, whatever happens meanwhile."""
    rules = made(rules, stickiness)
    if look_ahead and stickiness is None:
        rules["make_queue"] = LookAheadQueue
    player = Player(ledger("b0", **rules))
    for kind, number in before:
        player.play(kind, number)
    queues = [lane.queue for lane in player.farm.scheduler.dispatcher.matching.lanes]
    was = [list(queue.in_order()) for queue in queues]
    kept = [queue.order_kept() for queue in queues]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform_queue, "SORTED_AT_ONCE", 3)
        patch.setattr(portions, "SAMPLED", 2)
        patch.setattr(replay, "AT_ONCE", 2)
        seen = [list(islice(order, steps)) for order in kept]
        for kind, number in after:
            player.play(kind, number)
        looks = (chain(head, rest) for head, rest in zip(seen, kept, strict=True))
        assert [[state for _, state in chain.from_iterable(look)] for look in looks] == was


@settings(max_examples=100, deadline=None, phases=PHASES)
@given(
    before=histories,
    after=histories,
    rules=rules_of_a_farm.map(lambda rules: {**rules, "dedup": False}),
    stickiness=trees,
    name=st.sampled_from(sorted(RULES)),
)
def test_a_sweep_in_steps_is_about_the_moment_at_which_it_began(
    ledger, before, after, rules, stickiness, name
):
    """Facts between its steps change nothing: the formula on the snapshot, to the last bit."""
    player = Player(ledger("b0", **made(rules, stickiness)))
    for kind, number in [*before, *(("submit", seed) for seed in range(10))]:
        player.play(kind, number)
    scheduler, at = player.farm.scheduler, player.farm.at
    lanes, builders = scheduler.dispatcher.matching.lanes, scheduler.builders.values()
    own = RunTimes(held=scheduler.estimator.estimate)
    sweep = QueueSweep(lanes, builders, at, RULES[name], own)
    jobs, expected = estimate_queue(view_of(snapshot_of(scheduler, at)), RULES[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_steps, "STEP", 2)
        patch.setattr(platform_queue, "SORTED_AT_ONCE", 3)
        patch.setattr(portions, "SAMPLED", 2)
        patch.setattr(replay, "AT_ONCE", 2)
        for kind, number in after:
            player.play(kind, number)
            sweep.step()
        found = sweep.finish()
    assert list(sweep.places) == [job.id for job in jobs]
    assert np.array_equal(found.estimate_s, expected.estimate_s, equal_nan=True)
    one_by_one = [found.estimate_at(place) for place in range(len(jobs))]
    assert one_by_one == [None if np.isnan(each) else each for each in expected.estimate_s]


@settings(max_examples=60, deadline=None, phases=PHASES)
@given(history=histories, rules=rules_of_a_farm, stickiness=trees)
def test_a_history_replays(ledger, history, rules, stickiness):
    """The same facts give the same orders, and are ignored alike."""
    farm = ledger(**made(rules, stickiness))
    player = Player(farm)
    for kind, number in history:
        player.play(kind, number)
    fresh = ledger(**made(rules, stickiness)).scheduler
    again = [(event, fresh.handle(event)) for event, _ in farm.story]
    assert [(event, list(orders)) for event, orders in again] == farm.story
    assert all(not orders for _, orders in again if orders is IGNORED)


@pytest.mark.parametrize("dedup", [False, True])
def test_queues_and_heaps_hold_no_growing_garbage(ledger, dedup):
    """Cancels, changed priorities and passing builders leave nothing behind for good."""
    farm = ledger("b0", dedup=dedup)
    handle, jobs, dice = farm.scheduler.handle, farm.scheduler.jobs, Random(1)
    for number in range(3000):
        at = 10.0 + number
        handle(JobsSubmitted(at, (farm.job(f"j{number}", action=f"A{number // 3}"),)))
        handle(CancelRequested(at, (f"j{number - 20}",)))
        waiting = [name for name, state in jobs.items() if state.status.value == "waiting"]
        for name in dice.sample(waiting, min(3, len(waiting))):
            handle(PriorityChanged(at, name, level=dice.randrange(100)))
        handle(BuilderJoined(at, Builder(id=f"x{number}", pool="p", index=10 + number)))
        handle(BuilderLost(at, f"x{number}"))
    matching = farm.scheduler.dispatcher.matching
    (lane,) = matching.lanes
    assert isinstance(lane.queue, PlainQueue)
    assert len(lane.queue._heap) < 200
    for group in matching.groups:
        assert sum(map(len, group.free._buckets.values())) < 1100
        assert len(group.free._members) <= 1
    assert len(jobs) < 40
    assert len(farm.scheduler.book._leaders) < 40
