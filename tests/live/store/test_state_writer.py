"""Redis holds the scheduler's state, after every batch of a random history."""

from __future__ import annotations

import random
from unittest import mock

import fakeredis
import pytest

from farm.core import events
from farm.core.commands import EndJob
from farm.core.model import Builder, Job, Platform
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.runtime import make_estimator
from farm.live.hosts.successor_state import SuccessorState
from farm.live.redis.keys import Keys
from farm.live.store.batch import Batch
from farm.live.store.saved import snapshot_of_saved
from farm.live.store.state_writer import StateWriter
from farm.live.wire.pool_report import FarmStatus
from tests.fixtures.store import ReadableStore
from tests.worlds.stepwise import Clock, Leader

PLATFORMS = (Platform("amd64", True), Platform("arm64", True), Platform(None, True))


class History:
    """Random events for a scheduler, mirrored batch by batch."""

    def __init__(self, seed: int, estimator, policy="score", **more) -> None:
        self.dice = random.Random(seed)
        rules = SchedulingRules(
            policy=POLICIES[policy](PolicyOptions()),
            policy_of=lambda choices: POLICIES[choices.policy](PolicyOptions()),
            retries=1,
            **more,
        )
        self.scheduler = Scheduler(rules, estimator)
        self.mirror = StateWriter(self.scheduler)
        self.redis = fakeredis.FakeRedis(protocol=2)
        self.store = ReadableStore(self.redis, Keys())
        self.store.open(speed=1.0)
        self.submitted: list[bytes] = []
        self.at = 0.0
        self.made = 0
        self.ended = 0

    def play(self, batches: int) -> None:
        for _ in range(batches):
            batch = Batch()
            for _ in range(self.dice.randint(1, 6)):
                self.happen(batch)
            self.mirror.write(batch)
            self.store.commit(batch, {}, self.at)
            self.compare()

    def happen(self, batch: Batch) -> None:
        self.at += 1.0
        event = self.choose()
        self.mirror.touch(event)
        for command in self.scheduler.handle(event):
            self.mirror.note(command, self.at, batch)
            self.ended += isinstance(command, EndJob)

    def choose(self) -> events.Event:
        dice, jobs = self.dice, list(self.scheduler.jobs.values())
        running = [state for state in jobs if state.slot is not None]
        roll = dice.random()
        if running and roll < 0.4:
            state = dice.choice(running)
            told = (state.job.id, state.attempts, state.slot.builder.builder.id)
            if state.started_at is None:
                return events.JobStarted(self.at, *told)
            return events.JobFinished(self.at, *told, dice.choice(["succeeded", "failed"]))
        if roll < 0.42:
            policy = dice.choice(["score", "fifo", "random"])
            return events.SchedulingChanged(self.at, policy=policy)
        if jobs and roll < 0.5:
            job_id = dice.choice(jobs).job.id
            return events.PriorityChanged(self.at, job_id, level=dice.randint(0, 2))
        if jobs and roll < 0.55:
            return events.CancelRequested(self.at, jobs=(dice.choice(jobs).job.id,))
        if self.scheduler.builders and roll < 0.6:
            return events.BuilderLost(self.at, dice.choice(list(self.scheduler.builders)))
        self.made += 1
        if roll < 0.7:
            builder = Builder(
                id=f"b{self.made}",
                pool="p",
                index=self.made,
                processors=(dice.choice(["amd64", "arm64"]),),
                slots=dice.randint(1, 2),
            )
            return events.BuilderJoined(self.at, builder)
        made = tuple(
            Job(
                id=f"j{self.made}-{number}",
                service_time=1.0,
                platform=dice.choice(PLATFORMS),
                kind=dice.choice("ab"),
                score=float(dice.randint(-3, 3)),
            )
            for number in range(dice.randint(1, 3))
        )
        return events.JobsSubmitted(self.at, made)

    def compare(self) -> None:
        self.store.look_at_keys(self.mirror.sizes(hosts=0))
        live = self.scheduler.jobs
        waiting: dict[str, list[str]] = {name: [] for name in self.store.depths()}
        for state in sorted(live.values(), key=lambda state: state.key):
            if state.slot is None:
                waiting[str(state.job.platform)].append(state.job.id)
        for platform, jobs in waiting.items():
            assert self.store.waiting(platform, 0, 1000) == jobs
        on_builders = {
            (s.job.id, s.attempts, s.slot.builder.builder.id, s.slot.number)
            for s in live.values()
            if s.slot is not None
        }
        shown = self.store.jobs()
        assert {
            (name, one.attempts, one.builder, one.slot)
            for name, one in shown.items()
            if one.builder is not None
        } == on_builders
        assert {name.decode() for name in self.redis.zrange(Keys().running, 0, -1)} == {
            name for name, *_ in on_builders
        }
        assert self.mirror.running == len(on_builders)
        builders = self.store.builders()
        assert {name: record.busy for name, record in builders.items()} == {
            name: state.busy for name, state in self.scheduler.builders.items()
        }
        assert self.store.count_results() == self.ended
        # a reader that continues where it was skips and repeats no job
        before, self.submitted = self.submitted, self.redis.zrange(Keys().submitted, 0, -1)
        assert self.submitted[: len(before)] == before
        assert len(self.submitted) == self.ended + len(live)
        assert shown.keys() == live.keys()


@pytest.mark.parametrize("seed", range(6))
def test_redis_holds_the_schedulers_state(seed: int, truth):
    """Queues in order, attempts, builders, results: after each of many random batches."""
    history = History(seed, truth)
    history.play(60)
    assert history.ended > 10


def test_redis_holds_the_order_of_the_last_sorting():
    """Jobs that are sorted by what was learned since their submission."""
    history = History(0, make_estimator("last-3"), policy="sjf", sort_every=5.0)
    reorderer, seen = history.scheduler.reorderer, []
    keep = reorderer.sort
    reorderer.sort = lambda *told: (keep(*told), seen.append(len(reorderer.rekeyed)))
    history.play(60)
    assert sum(count > 0 for count in seen) > 5


def test_a_successor_finds_each_builder_as_it_was(truth):
    """A builder's whole state survives a scheduler: also that it reported an overload."""
    history = History(0, truth)
    told: list[events.Event] = [
        events.BuilderJoined(1.0, Builder(id="b", pool="p", index=1, slots=2)),
        events.LoadReported(2.0, "b", 1.6, overloaded=True),
        events.DrainRequested(3.0, "b"),
    ]
    batch = Batch()
    for event in told:
        history.mirror.touch(event)
        history.scheduler.handle(event)
    history.mirror.write(batch)
    history.store.commit(batch, {}, 3.0)
    assert history.store.builders() == {
        view.builder.id: view for view in snapshot_of(history.scheduler, 3.0).builders
    }
    assert history.store.builders()["b"].overloaded


def test_a_successor_holds_jobs_back_until_the_same_instant(truth):
    """Until when a job waits for a faster builder is committed with the counts."""
    history, batch = History(0, truth), Batch()
    history.scheduler.dispatcher.held["a"] = 456.0
    roster, requests = mock.Mock(changed=set()), mock.Mock(wanted=[], outside={})
    state = SuccessorState(history.scheduler, roster, requests)
    history.store.open(1.0, stays=True)
    state.write(batch, 0, {})
    history.store.commit(batch, {}, 3.0)
    saved = history.store.saved()
    assert saved is not None
    assert snapshot_of_saved(saved).held == {"a": 456.0}


@pytest.mark.live
def test_an_idle_farm_whose_server_is_emptied_is_rewritten(client, keys: Keys):
    """With its status, in one transaction, although no report triggers a write."""
    leader = Leader(client, keys, Clock())
    leader.commit()
    status = FarmStatus(
        at=1.0, submitted=0, waiting=0, running=0, ended={}, builders={}, hosts=0, stopping=False,
        written_at=1.0, speed=1.0,
    )  # fmt: skip
    leader.world.notices.publish({}, {}, status)
    written = client.get(keys.status)
    client.delete(*client.keys(f"{keys.prefix}*"))
    leader.world.notices.publish({}, {}, status)
    assert not client.exists(keys.status)
    leader.commit()
    assert client.get(keys.status) == written
    assert client.hexists(keys.meta, "cursor")
