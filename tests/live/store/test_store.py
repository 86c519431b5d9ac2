"""The copy of the farm's state in Redis, on the fake and on the real server alike."""

from __future__ import annotations

import pytest
from redis.exceptions import ConnectionError as AwayError

from farm.core.commands import EndJob
from farm.core.errors import ServerError
from farm.core.model import Builder, Job, Platform
from farm.core.state.snapshot import BuilderRecord
from farm.live.redis.keys import LAST_ENTRY, Keys, encode_member
from farm.live.redis.leader_fencing import DeposedError, LostWritesError
from farm.live.redis.lease import Lease
from farm.live.run import _clear_quietly
from farm.live.store.batch import Batch
from farm.live.store.saved import Counts, FarmReader, HostLife
from farm.live.store.store import Store
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import VERSION
from tests.fixtures.store import (
    ReadableStore,
    on_builders,
    running_record,
    waiting_record,
    watching,
)

AMD64 = Platform("amd64", True)


@pytest.fixture
def store(redis, keys) -> ReadableStore:
    """A store with keys of its own."""
    return ReadableStore(redis, keys)


def waits(batch: Batch, number: int, level: int = 0) -> Job:
    """Let a job wait in this batch."""
    job = Job(id=f"job-{number}", service_time=1.0, platform=AMD64, level=level)
    batch.jobs[job.id] = waiting_record(job, number)
    batch.waiting[str(AMD64)][encode_member((-level, 0.0, number), job.id)] = 0.0
    return job


def test_waiting_jobs_are_in_policy_order(store: ReadableStore, redis, keys: Keys):
    """Depth is one ZCARD, and a page of the queue is in the order of dispatch."""
    batch = Batch()
    for number in range(25):
        waits(batch, number, level=1 if number == 20 else 0)
    store.commit(batch, {}, 1.5)
    assert store.depths() == {"amd64/virtual": 25}
    assert redis.zcard(keys.pending("amd64/virtual")) == 25
    first = store.waiting("amd64/virtual", 0, 3)
    assert first == ["job-20", "job-0", "job-1"]
    assert store.waiting("amd64/virtual", 23, 10) == ["job-23", "job-24"]
    assert store.reader.jobs()["job-3"].job == Job(id="job-3", service_time=1.0, platform=AMD64)


def test_a_job_moves_from_waiting_to_running_to_ended(store: ReadableStore, redis, keys: Keys):
    """Each stage leaves the one before it."""
    batch = Batch()
    job = waits(batch, 1)
    store.commit(batch, {}, 0.0)
    batch = Batch()
    batch.not_waiting[str(AMD64)].append(encode_member((0, 0.0, 1), job.id))
    batch.jobs[job.id] = record = running_record(job, "b", 2.0, 2.0)
    batch.running[job.id] = 2.0
    store.commit(batch, {}, 2.0)
    assert store.depths() == {"amd64/virtual": 0}
    assert on_builders(store) == {job.id: record}
    assert redis.zrange(keys.running, 0, -1) == [job.id.encode()]
    batch = Batch()
    batch.not_running.append(job.id)
    end = EndJob(
        job=job, outcome="succeeded", attempts=1, submitted_at=0.0, finished_at=3.0, builder="b"
    )
    batch.ended[job.id] = end
    store.commit(batch, {}, 3.0)
    assert redis.zrange(keys.running, 0, -1) == []
    assert store.reader.jobs() == {}
    assert store.result(job.id) == end
    assert store.count_results() == 1


def test_committing_twice_changes_nothing(store: ReadableStore, redis, keys: Keys):
    """A commit whose answer was lost is repeated: only messages are sent twice."""
    batch = Batch()
    waits(batch, 1)
    builder = Builder(id="b", pool="p", index=1)
    view = BuilderRecord(builder=builder, condition="idle", joined_at=0.0, active_at=0.0)
    batch.builders["b"] = view
    batch.messages["host"] = [b"one", b"two"]
    store.commit(batch, {}, 0.0)
    store.commit(batch, {}, 0.0)
    assert store.depths() == {"amd64/virtual": 1}
    assert store.builders() == {"b": view}
    # a host takes from the right: the oldest first
    assert redis.rpop(keys.host_list("host")) == b"one"
    assert store.queued_messages(["host", "other"]) == {"host": 3, "other": 0}


def test_each_stream_is_trimmed_up_to_the_cursor(store: ReadableStore, redis, keys: Keys):
    """What was read is removed, the rest stays, and the cursor is kept for a successor."""
    stream = keys.stream("reports")
    entries = [redis.xadd(stream, {"m": b"x"}).decode() for _ in range(5)]
    redis.xadd(keys.stream("submissions"), {"m": b"x"})
    assert store.cursor() == {}
    store.commit(Batch(), {"reports": entries[2]}, 9.0)
    assert store.cursor() == {"reports": entries[2]}
    assert [entry.decode() for entry, _ in redis.xrange(stream)] == entries[3:]
    assert redis.xlen(keys.stream("submissions")) == 1


def test_a_stream_that_no_entry_can_follow_is_removed_once(store: ReadableStore, redis, keys: Keys):
    """A turn that left submissions out removed them once more, with those of since then."""
    inbox, stream = Inbox(redis, keys), keys.stream("submissions")
    redis.xadd(stream, {"m": b"x"}, id=LAST_ENTRY)
    inbox.read(0.0)
    store.commit(Batch(), dict(inbox.cursor), 9.0)
    redis.xadd(stream, {"m": b"a job"})
    redis.xadd(keys.stream("questions"), {"m": b"one"})
    inbox.read(0.0)
    store.commit(Batch(), dict(inbox.cursor), 9.0)
    assert redis.xlen(stream) == 1


def test_a_fresh_farm_deletes_an_old_one_but_no_other_keys(store: ReadableStore, redis, keys: Keys):
    """Only keys of this prefix are deleted, despite wildcards in it, and the lease stays."""
    redis.set(keys.lease, "mine")
    batch = Batch()
    waits(batch, 1)
    store.commit(batch, {}, 0.0)
    other = Keys("other-" + keys.prefix)
    redis.set(other.meta + "x", "theirs")
    wild = ReadableStore(redis, Keys("*"))
    wild.clear()
    assert store.depths() == {"amd64/virtual": 1}
    store.open(speed=2.0)
    assert store.depths() == {}
    assert redis.get(keys.lease) == b"mine"
    assert redis.get(other.meta + "x") == b"theirs"
    redis.delete(other.meta + "x", keys.lease)


@pytest.mark.parametrize(("prefix", "longer"), [("ci", "ci2"), ("farm:", "farm:ci:")])
def test_a_fresh_farm_deletes_no_farm_whose_prefix_begins_with_its_own(redis, prefix, longer):
    """Every key of the one goes, families too; of the other none."""
    ours, theirs = Keys(prefix), Keys(longer)
    families = "pending:a:b", "pending:a:draft", "tries:a\nb", "celery:host.x"
    for keys in (ours, theirs):
        names = (keys.meta, keys.results, keys.stream("submissions"), keys.provisioner_lease)
        for name in (*names, *(keys.prefix + family for family in families)):
            redis.set(name, "x")
    before = set(redis.scan_iter(match=f"{longer}*"))
    ReadableStore(redis, ours).clear()
    assert set(redis.scan_iter(match=f"{prefix}*")) == before
    assert len(before) == 8
    ReadableStore(redis, theirs).clear()
    assert not list(redis.scan_iter(match=f"{prefix}*"))


@pytest.mark.parametrize(
    "longer", ["farm:jobs:", "farm:tries:", "farm:pending:a/b:", "farm:celery:"]
)
def test_a_farm_within_a_family_of_keys_is_not_deleted(redis, longer):
    """Its keys cannot be told from members of that family: refused, unless no key is both."""
    ours, theirs = ReadableStore(redis, Keys("farm:")), ReadableStore(redis, Keys(longer))
    theirs.open(speed=1.0, stays=True)
    redis.rpush(f"{longer}tries:a", "x")
    redis.rpush("farm:tries:a-fence", "a job's, which is no hash")
    before = set(redis.scan_iter(match="farm:*"))
    if longer == "farm:jobs:":
        ours.clear()
        assert set(redis.scan_iter(match="farm:*")) == before - {b"farm:tries:a-fence"}
    else:
        for delete in (ours.clear, lambda: ours.open(speed=1.0)):
            with pytest.raises(ServerError, match=f"of the prefix '{longer}'.*another FARM_PREFIX"):
                delete()
        assert set(redis.scan_iter(match="farm:*")) == before
    theirs.clear()
    ours.clear()


def test_no_step_of_a_wall_clock_moves_farm_time(store: ReadableStore, redis, keys: Keys):
    """The time since the last commit is this machine's; another machine has only the server's."""
    batch = Batch()
    batch.counts = Counts()
    redis.hset(keys.meta, mapping={"version": VERSION, "speed": "1.0"})
    long_ago = "1000-0"  # by the server's clock: 1970
    store.commit(batch, {"reports": long_ago}, 5.0)
    saved = store.reader.saved()
    assert saved is not None
    assert 0.0 <= saved.age < 3600.0
    redis.hset(keys.meta, "clock", "another-boot 17.0")
    saved = store.reader.saved()
    assert saved is not None
    assert saved.age > 1e9


def test_a_farm_cannot_continue_from_an_emptied_server(store: ReadableStore, keys: Keys):
    """Emptied under a scheduler that died then: one message says what is missing and what to do."""
    batch = Batch()
    waits(batch, 1)
    batch.counts = Counts(serial=1)
    store.commit(batch, {}, 1.0)
    with pytest.raises(ServerError, match=r"no speed and no version .* 1 of its jobs .*--fresh"):
        store.reader.saved()


def test_a_farm_is_rewritten_in_place_of_old_data(store: ReadableStore, redis, keys: Keys):
    """Old data on the server are replaced: no job appears twice, or has no place."""
    store.open(1.0)
    store.take_over(1.0, "rules")
    old, ended = Batch(), EndJob(Job(id="job-0", service_time=1.0), "succeeded", 1, 0.0, 9.0)
    for number in range(3):
        waits(old, number)
    old.running["job-9"] = 1.0
    old.messages["host"] = [b"obeyed long ago"]
    store.commit(old, {}, 1.0)
    now = Batch()
    now.lives["host"] = HostLife(name="host", life="life")
    now.counts = Counts(serial=3)
    waits(now, 2)
    store.restore(now, [ended], {}, 10.0)
    assert store.waiting("amd64/virtual", 0, 9) == ["job-2"]
    assert set(store.reader.jobs()) == {"job-2"}
    assert redis.zcard(keys.running) == redis.llen(keys.host_list("host")) == 0
    assert set(store.known(["job-0", "job-1", "job-2"])) == {"job-0", "job-2"}
    saved = store.reader.saved()
    assert saved is not None
    assert (saved.at, saved.rules, saved.speed, set(saved.lives)) == (10.0, "rules", 1.0, {"host"})


def test_a_large_farm_is_rewritten_in_pieces(store: ReadableStore, redis, keys: Keys, monkeypatch):
    """No command of it is large; until all is there, also if it is lost again, it is incomplete."""
    monkeypatch.setattr("farm.live.store.batch.AT_ONCE", 3)
    store.open(1.0, stays=True)
    farm = Batch()
    for number in range(10):
        waits(farm, number)
        farm.submitted[f"job-{number}"] = float(number)
    farm.counts = Counts(serial=10)
    seen: list[int] = []
    write = Batch.write

    def look(part: Batch, *args, **named) -> None:
        seen.append(redis.hlen(keys.jobs))
        with pytest.raises(ServerError, match="incomplete"):
            FarmReader(redis, keys).saved()
        if len(seen) == 4:
            redis.delete(keys.fence, keys.jobs)  # emptied once more
        write(part, *args, **named)

    store.commit(Batch(), {}, 0.0)
    with monkeypatch.context() as looking:
        looking.setattr(Batch, "write", look)
        with pytest.raises(AwayError, match="has changed"):
            store.restore(farm, [], {}, 10.0)
    assert seen == [0, 3, 6, 9]
    store.restore(farm, [], {}, 10.0)
    assert len(store.reader.jobs()) == redis.zcard(keys.submitted) == 10
    assert store.waiting("amd64/virtual", 0, 99) == [f"job-{number}" for number in range(10)]


def test_a_deposed_scheduler_clears_nothing(redis, keys: Keys):
    """Paused between reading an empty farm and opening it, while another one began to work."""
    lease = Lease(redis, keys)
    old = lease.try_to_take(redis)
    redis.delete(keys.lease)
    other = watching(redis, keys)
    assert old is not None
    assert other.try_to_take(redis) is not None
    redis.hset(keys.jobs, "job", "of the other's farm")
    with pytest.raises(DeposedError):
        Store(redis, keys, old).open(1.0)
    assert redis.hlen(keys.jobs) == 1
    lease.release()
    other.release()


def test_what_is_written_once_is_renewed(store: ReadableStore, redis, keys: Keys):
    """Only a successor reads it, which would begin nothing without it."""
    store.open(2.0, stays=True)
    store.take_over(2.0, "rules")
    store.commit(Batch(), {"reports": "1-0"}, 3.0)
    redis.hset(keys.meta, mapping={"version": "garbage", "speed": "{"})
    store.look_at_keys(jobs=0, builders=0, hosts=0)
    saved = FarmReader(redis, keys).saved()
    assert saved is not None
    assert (saved.speed, saved.at) == (2.0, 3.0)


@pytest.mark.parametrize("garbage", [b"abc", b"\xff", b"{}", b"[" * 10_000, None])
def test_what_a_successor_cannot_read_is_written_anew(
    store: ReadableStore, redis, keys: Keys, garbage: bytes | None
):
    """One bad record, or key, does not stop the farm: the other jobs continue."""
    store.open(1.0)
    batch = Batch()
    waits(batch, 1)
    batch.counts = Counts(serial=1)
    store.commit(batch, {}, 1.0)
    hashes = {keys.jobs, keys.builders, keys.lives, keys.wanted, keys.requested}
    for key in hashes - {keys.jobs}:
        redis.set(key, "something else") if garbage is None else redis.hset(key, b"\xff", garbage)
    redis.hset(keys.jobs, b"\xff", garbage or b"")
    redis.set(keys.learned, garbage or b"")
    redis.sadd(keys.platforms, b"\xff")
    redis.lpush(keys.dead_letters, garbage or b"")
    saved = store.reader.saved()
    assert saved is not None
    assert set(saved.jobs) == {"job-1"}
    store.take_over(1.0, "rules", saved.spoilt)
    with pytest.raises(LostWritesError) as caught:
        store.commit(batch, {}, 2.0)
    assert set(caught.value.keys) == hashes
    store.restore(batch, [], {}, 2.0, caught.value.keys)
    store.commit(Batch(), {}, 3.0)
    assert [redis.hlen(key) for key in hashes] == [key == keys.jobs for key in hashes]


@pytest.mark.parametrize("field", ["at", "speed", "counts", "cursor", "rules"])
def test_a_farm_whose_counts_cannot_be_read_is_reported(
    store: ReadableStore, redis, keys: Keys, field: str
):
    """In one message: nothing is begun, and nothing of it is deleted."""
    store.open(1.0, stays=True)
    redis.hset(keys.meta, field, b"\xff")
    with pytest.raises(ServerError, match=r"meta cannot be read .*--fresh"):
        store.reader.saved()


def test_a_finished_run_on_a_server_that_was_emptied_stays_finished(redis, keys: Keys):
    """What it leaves behind there is no reason to fail."""
    lease = watching(redis, keys)
    fence = lease.try_to_take(redis)
    assert fence is not None
    store = Store(redis, keys, fence)
    store.open(1.0)
    redis.delete(*redis.keys(keys.prefix + "*"))
    redis.hset(keys.jobs, "job", "written since")
    _clear_quietly(store)
    redis.delete(keys.jobs)
    lease.release()
