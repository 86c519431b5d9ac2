"""Redis holds the scheduler's state, after every batch of a random history."""

from __future__ import annotations

import random
from typing import Any

import pytest

from farm.core import events
from farm.core.events import JobsSubmitted
from farm.core.model import Job, Platform
from farm.core.state.snapshot import snapshot_of
from farm.live.commits import counts_of
from farm.live.redis.connection import server_time
from farm.live.redis.keys import Keys
from farm.live.store import state_writer
from farm.live.store.batch import Batch
from farm.live.store.saved import snapshot_of_saved
from farm.live.wire.messages import UNSTAMPED
from farm.live.wire.reporter import EnvelopeMaker
from farm.testing import VirtualFarm
from tests.fixtures.store import ReadableStore
from tests.worlds.stepwise import Clock, Leader

PLATFORMS = (Platform("amd64", True), Platform("arm64", True), Platform(None, True))
POOLS = [
    {"name": "amd", "platform": {"processor": "amd64"}, "builders": 2, "slots": 2,
     "losses": {"rate": "200/h"}},
    {"name": "arm", "platform": {"processor": "arm64"}, "builders": 1, "inter_job_time": "2s"},
]  # fmt: skip


def job(name: str, processor: str) -> Job:
    """Return a job for a processor."""
    return Job(id=name, service_time=30.0, platform=Platform(processor, True))


class History:
    """A virtual farm with random jobs and operators, compared with its copy in Redis."""

    def __init__(self, seed: int, policy: str = "score", **more: Any) -> None:
        self.dice = random.Random(seed)
        load = {"arrivals": {"every": 1, "count": 1, "service_time": 1, "platform": {}}}
        rules = {"policy": policy, "retries": 1, **more}
        self.farm = VirtualFarm(
            {"seed": seed, "pools": POOLS, "workload": [load], "scheduling": rules}
        )
        self.store = ReadableStore(self.farm.redis, self.farm.operator.keys)
        self.submitted: list[bytes] = []

    def play(self, turns: int) -> None:
        for turn in range(turns):
            self.happen(turn)
            self.farm.advance(self.dice.uniform(0.0, 4.0))
            self.compare()

    def happen(self, turn: int) -> None:
        """Let users submit jobs, or operators change something."""
        dice, operator = self.dice, self.farm.operator
        jobs = list(self.farm.scheduler.jobs) or ["unknown"]
        roll = dice.random()
        if roll < 0.05:
            policy = dice.choice(["score", "fifo", "random"])
            operator.send(events.SchedulingChanged(UNSTAMPED, policy=policy))
        elif roll < 0.2:
            level = dice.randint(0, 2)
            operator.send(events.PriorityChanged(UNSTAMPED, dice.choice(jobs), level=level))
        elif roll < 0.3:
            operator.send(events.CancelRequested(UNSTAMPED, jobs=(dice.choice(jobs),)))
        else:
            operator.submit([self._job(f"j{turn}-{n}") for n in range(dice.randint(1, 4))])

    def _job(self, name: str) -> Job:
        dice = self.dice
        return Job(
            id=name,
            service_time=dice.uniform(0.0, 10.0),
            fails=dice.random() < 0.2,
            platform=dice.choice(PLATFORMS),
            kind=dice.choice("ab"),
            score=float(dice.randint(-3, 3)),
        )

    def compare(self) -> None:
        farm, writer, keys = self.farm, self.farm._state_writer, self.farm.operator.keys
        assert writer.stored == farm.redis.hlen(keys.jobs)
        live = farm.scheduler.jobs
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
        shown = self.store.reader.jobs()
        assert {
            (name, one.attempts, one.builder, one.slot)
            for name, one in shown.items()
            if one.builder is not None
        } == on_builders
        assert {name.decode() for name in farm.redis.zrange(keys.running, 0, -1)} == {
            name for name, *_ in on_builders
        }
        assert writer.running == len(on_builders)
        builders = self.store.builders()
        assert {name: record.busy for name, record in builders.items()} == {
            name: state.busy for name, state in farm.scheduler.builders.items()
        }
        assert self.store.count_results() == self.ended
        # a reader that continues where it was skips and repeats no job
        before, self.submitted = self.submitted, farm.redis.zrange(keys.submitted, 0, -1)
        assert self.submitted[: len(before)] == before
        assert len(self.submitted) == self.ended + len(live)
        assert shown.keys() == live.keys()

    @property
    def ended(self) -> int:
        return sum(self.farm.operator.status().ended.values())


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_redis_holds_the_schedulers_state(seed: int):
    """Queues in order, attempts, builders, results: after each of many random batches."""
    history = History(seed)
    history.play(60)
    assert history.ended > 25


def test_redis_holds_the_order_of_the_last_sorting():
    """Jobs that are sorted by what was learned since their submission."""
    history = History(0, policy="sjf", runtime_estimates="last-3", sort_every="5s")
    reorderer, seen = history.farm.scheduler.reorderer, []
    keep = reorderer.sort
    reorderer.sort = lambda *told: (keep(*told), seen.append(len(reorderer.rekeyed)))
    history.play(100)
    assert sum(count > 0 for count in seen) > 5


def test_a_platform_that_no_builder_serves_is_forgotten_with_its_last_job(monkeypatch):
    """By the scheduler and by Redis; the queues of the others stay as they are."""
    monkeypatch.setattr(state_writer, "MANY_PLATFORMS", 5)
    history = History(0)
    farm = history.farm
    kept = [job(f"kept-{n}", "p1") for n in range(3)] + [job(f"own-{n}", "amd64") for n in range(9)]
    farm.submit(*kept, *(job(f"other-{n}", f"p{n}") for n in range(4)))
    for n in range(30):
        farm.submit(job(f"invented-{n}", f"p{n}"))
        farm.operator.send(events.CancelRequested(UNSTAMPED, (f"invented-{n}",), ""))
        farm.advance(1.0)
        history.compare()
    used = {"amd64/virtual", *(f"p{n}/virtual" for n in range(4))}
    assert used <= history.store.depths().keys()
    assert len(history.store.depths()) < 16
    assert len(farm.scheduler.dispatcher.matching.lanes) < 16


def test_a_successor_finds_each_builder_as_it_was():
    """A builder's whole state survives a scheduler: also that it reported an overload."""
    history = History(0)
    overload = events.LoadReported(UNSTAMPED, "arm-1", 1.6, overloaded=True)
    for event in (overload, events.DrainRequested(UNSTAMPED, "arm-1")):
        history.farm.operator.send(event)
    history.farm.advance(1.0)
    records = snapshot_of(history.farm.scheduler, 1.0).builders
    assert history.store.builders() == {view.builder.id: view for view in records}
    assert history.store.builders()["arm-1"].overloaded


def test_a_successor_holds_jobs_back_until_the_same_instant():
    """Until when a job waits for a faster builder is committed with the counts."""
    history, batch = History(0), Batch()
    farm = history.farm
    farm.scheduler.dispatcher.held["a"] = 456.0
    farm._store.open(1.0, stays=True)
    batch.counts = counts_of(farm.scheduler, 0, {})
    farm._store.commit(batch, {}, 3.0)
    saved = history.store.reader.saved()
    assert saved is not None
    assert snapshot_of_saved(saved).held == {"a": 456.0}


@pytest.mark.live
def test_an_idle_farm_whose_server_is_emptied_is_rewritten(client, keys: Keys):
    """With its status, in one transaction, although no report triggers a write."""
    leader = Leader(client, keys, Clock())
    leader.commit()
    status = leader.world.status()
    leader.world.notices.publish({}, {}, status)
    written = client.get(keys.status)
    client.delete(*client.keys(f"{keys.prefix}*"))
    leader.world.notices.publish({}, {}, status)
    assert not client.exists(keys.status)
    leader.commit()
    assert client.get(keys.status) == written
    assert client.hexists(keys.meta, "cursor")


@pytest.mark.live
def test_what_is_published_brings_the_servers_time_along(client, keys: Keys):
    """Every two seconds a farm at rest asked for it alone. It is asked anew after trouble."""
    leader = Leader(client, keys, Clock())
    leader.commit()
    notices, status = leader.world.notices, leader.world.status()
    notices.publish({}, {}, status)
    client.config_resetstat()
    shown = notices.server_time()
    assert "cmdstat_time" not in client.info("commandstats")
    assert abs(shown - server_time(client)) < 1.0
    client.delete(keys.fence)
    notices.publish({}, {}, status)
    client.config_resetstat()
    assert notices.server_time() >= shown
    assert client.info("commandstats")["cmdstat_time"]["calls"] == 1


@pytest.mark.live
def test_deleted_requests_for_builders_are_written_again(client, keys: Keys):
    """They were asked for their type only: a successor would have requested none of them."""
    leader = Leader(client, keys, Clock())
    leader.turn()
    written = client.hgetall(keys.wanted)
    client.delete(keys.wanted)
    leader.world.commits.look_at_keys()
    assert len(written) == 2
    assert client.hgetall(keys.wanted) == written


@pytest.mark.live
def test_an_emptied_server_whose_clock_is_behind_is_read(client, keys: Keys):
    """What is added to its new streams comes before all that was read: it would be cut off."""
    leader, sender = Leader(client, keys, Clock()), EnvelopeMaker("operator")
    for name, entry in (("before", "9999999999999-0"), ("after", "*")):
        submitted = JobsSubmitted(UNSTAMPED, (Job(id=name, service_time=1.0),))
        (envelope,) = sender.envelopes(submitted)
        client.xadd(keys.stream("submissions"), {"m": envelope}, id=entry)
        leader.turn()
        leader.turn()
        client.delete(*client.keys(f"{keys.prefix}*"))
        leader.world.commits.look_at_keys()
    assert set(leader.scheduler.jobs) == {"before", "after"}
