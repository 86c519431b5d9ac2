"""Random histories: nothing is lost, counts are right, no slot idles beside work."""

from __future__ import annotations

import random
from itertools import chain, islice

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from farm.core.state.working_state import JobState

PATHS = ["", "a", "a/x", "a/y", "a/y/z", "b", "b/x", "c/x"]
paths = st.sampled_from(PATHS)
priorities = st.sampled_from([-100, 0, 0, 0, 1, 100])
any_of = st.integers(0, 10**6)


@pytest.fixture(autouse=True, scope="module")
def _yard_type(yard_type):
    """Hand the yard's class to the machine below (hypothesis makes its objects itself)."""
    History.yard_type = yard_type


class History(RuleBasedStateMachine):
    """Jobs arrive, share, leave and change; slots take, end, drain, vanish."""

    yard_type = None

    @initialize(limits=st.sampled_from([(), (3.0,), (0.0, 5.0), (9.0, 4.0, 2.0)]))
    def begin(self, limits):
        self.yard = self.yard_type(limits)
        self.at = 0.0
        self.names = 0
        self.ended = set()
        #: orders that are read in small steps: what each was, what was seen, the rest
        self.looks = []

    def tick(self) -> float:
        self.at += 0.5
        return self.at

    def name(self) -> str:
        self.names += 1
        return f"j{self.names}"

    def pick(self, among, which):
        among = sorted(among)
        return among[which % len(among)] if among else None

    @rule(path=paths, priority=priorities, level=st.sampled_from([0, 0, 0, 1]))
    def arrive(self, path, priority, level):
        free = set(self.yard.free)
        slot = self.yard.arrive(self.name(), path, self.tick(), priority=priority, level=level)
        assert (slot is None) == (not free), "work conserving: a job waits only if no slot is free"
        assert slot is None or slot in free

    @rule(path=paths, priority=priorities, which=any_of)
    def share(self, path, priority, which):
        leaders = {s.job.id for s in (*self.yard.waiting.values(), *self.yard.running.values())}
        leader = self.pick(leaders, which)
        if leader is not None:
            self.yard.follow(self.name(), leader, path, self.tick(), priority=priority)

    @rule(which=any_of)
    def follower_leaves(self, which):
        leaders = [*self.yard.waiting.values(), *self.yard.running.values()]
        name = self.pick({f.job.id for s in leaders for f in s.followers}, which)
        if name is not None:
            follower = self.yard.jobs[name]
            leader = follower.leader
            leader.followers = tuple(f for f in leader.followers if f is not follower)
            self.yard.queue.left(follower, self.tick())
            self.ended.add(name)

    @rule(which=any_of)
    def waiting_leader_leaves(self, which):
        name = self.pick(self.yard.waiting, which)
        if name is None:
            return
        state = self.yard.waiting.pop(name)
        self.yard.queue.remove(state, self.tick())
        self.ended.add(name)
        if state.followers:
            heir, *rest = state.followers
            state.followers, heir.leader, heir.followers = (), None, tuple(rest)
            for follower in rest:
                follower.leader = heir
            self.yard.queue.add(heir, self.at)
            self.yard.waiting[heir.job.id] = heir

    @rule(which=any_of, urgency=st.integers(-5, 5))
    def rekey(self, which, urgency):
        name = self.pick(self.yard.waiting, which)
        if name is not None:
            state = self.yard.waiting[name]
            self.yard.queue.remove(state, self.tick())
            state.key = (-state.job.level, (urgency,), state.serial)
            self.yard.queue.add(state, self.at)

    @rule(number=st.integers(0, 5))
    def take(self, number):
        slot = f"s{number}"
        if slot not in self.yard.running and slot not in self.yard.free:
            before = len(self.yard.queue)
            taken = self.yard.take(slot, self.tick())
            assert (taken is None) == (before == 0), "a slot idles only if nothing waits"

    @rule(which=any_of, completed=st.booleans(), requeue=st.booleans())
    def end(self, which, completed, requeue):
        slot = self.pick(self.yard.running, which)
        if slot is None:
            return
        state = self.yard.end(slot, self.tick(), completed=completed)
        if requeue and not completed:
            self.yard.queue.add(state, self.at)
            self.yard.waiting[state.job.id] = state
        else:
            self.ended |= {member.job.id for member in (state, *state.followers)}

    @rule(which=any_of, gone=st.booleans())
    def unavailable(self, which, gone):
        slot = self.pick(self.yard.slots, which)
        if slot is not None and slot not in self.yard.running:
            self.yard.queue.slot_unavailable(self.yard.slot(slot), self.tick(), gone=gone)
            self.yard.free.discard(slot)
            if gone:
                del self.yard.slots[slot]

    @rule(which=any_of, priority=priorities, level=st.sampled_from([0, 0, 1]))
    def reprioritise(self, which, priority, level):
        name = self.pick(self.yard.waiting, which)
        if name is not None:
            state = self.yard.waiting[name]
            state.job = msgspec.structs.replace(state.job, priority=priority, level=level)
            before, state.key = state.key, (-level, (priority,), state.serial)
            self.yard.queue.rekeyed(state, before, self.tick())

    @rule()
    def begin_to_look(self):
        expected = list(self.yard.queue.in_order())
        self.looks.append((expected, [], self.yard.queue.order_kept()))

    @rule(which=any_of, steps=st.integers(1, 3))
    def look_on(self, which, steps):
        if self.looks:
            _, seen, rest = self.looks[which % len(self.looks)]
            seen.extend(state for _, state in chain.from_iterable(islice(rest, steps)))

    @rule(which=any_of)
    def look_away(self, which):
        if self.looks:
            del self.looks[which % len(self.looks)]

    @invariant()
    def counts_hold(self):
        if hasattr(self, "yard"):
            self.yard.check()

    @invariant()
    def no_job_is_lost(self):
        if hasattr(self, "yard"):
            here = [*self.yard.waiting.values(), *self.yard.running.values()]
            members = {m.job.id for s in here for m in (s, *s.followers)}
            queue = self.yard.queue
            operations = [o for node in queue._tree.root.subtree() for o in node.queue]
            waiting = [state for operation in operations for state in operation.states]
            assert {s.job.id for s in (*waiting, *queue.listing.running_in())} == members
            assert members.isdisjoint(self.ended)
            assert members | self.ended == set(self.yard.jobs)

    @invariant()
    def the_order_of_dispatch_is_complete(self):
        if hasattr(self, "yard"):
            predicted = list(self.yard.queue.in_order())
            assert sorted(s.job.id for s in predicted) == sorted(self.yard.waiting)

    def teardown(self):
        """Whatever happened: the predicted order is the order in which new slots take the jobs."""
        if not hasattr(self, "yard"):
            return
        for expected, seen, rest in self.looks:
            assert [*seen, *(state for _, state in chain.from_iterable(rest))] == expected, (
                "a kept order stays as it was"
            )
        self.looks.clear()
        assert not self.yard.queue._tree.onlookers, "a finished reader is removed"
        predicted = [state.job.id for state in self.yard.queue.in_order()]
        taken = [self.yard.take(f"new{n}", self.tick()) for n in range(len(predicted) + 1)]
        assert taken == [*predicted, None]
        for slot in list(self.yard.running):
            self.yard.end(slot, self.tick())
        for slot in list(self.yard.slots.values()):
            self.yard.queue.slot_unavailable(slot, self.tick(), gone=True)
        root = self.yard.node("")
        assert root.empty, "when all is over nothing is left"
        assert not self.yard.queue._executions.operations


History.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = History.TestCase


@pytest.mark.parametrize("seed", range(5))
def test_no_invocation_starves(make_yard, seed):
    """With constant newcomers, every invocation's first job still gets its turn soon.

    One slot, equal priorities: between two dispatches of a node every other waiting sibling is
    dispatched at most once more than it, so an arrival waits at most one round.
    """
    yard, dice = make_yard(), random.Random(seed)
    builds = [f"b{n}" for n in range(8)]
    for name in builds:
        yard.wait(f"{name}-0", name)
    rounds = dict.fromkeys(builds, 0)
    assert yard.take("s", 0) is not None
    for turn in range(1, 400):
        name = dice.choice(builds[:2])  # two builds flood the queue
        yard.wait(f"{name}-{turn}", name, turn)
        if turn % 20 == 0:
            for other in builds[2:]:
                yard.wait(f"{other}-{turn}", other, turn)
                rounds[other] = turn
        taken: JobState | str | None = yard.turn("s", turn)
        assert taken is not None
        for other, since in list(rounds.items()):
            waiting = [s for s in yard.waiting.values() if s.path == (other,)]
            if other in builds[2:] and waiting:
                assert turn - since <= len(builds) + 1
