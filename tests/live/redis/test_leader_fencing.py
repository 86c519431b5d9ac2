"""Only the current scheduler writes, and what it commits is committed once."""

from __future__ import annotations

import pytest
import redis as redis_library
from redis.connection import Connection

from farm.live.redis.keys import Keys
from farm.live.redis.leader_fencing import DeposedError, Fence, LostWritesError
from farm.live.redis.lease import Lease
from tests.fixtures.store import watching


@pytest.fixture
def count(keys: Keys) -> str:
    """The key that counts how often a change was made."""
    return f"{keys.prefix}count"


@pytest.fixture
def counts(count: str):
    """A change that shows how often it was made."""
    return lambda pipe: pipe.incr(count)


def cut_once(monkeypatch, *, carried_out: bool) -> None:
    """Break the connection before or after the server has carried the next transaction out."""
    send, read = Connection.send_packed_command, Connection.read_response
    broken: list[object] = []

    def send_packed_command(connection: Connection, data: list[bytes], **options: object) -> None:
        if b"MULTI" in b"".join(data) and not broken:
            broken.append(connection)
            if not carried_out:
                raise redis_library.ConnectionError("cut")
        send(connection, data, **options)

    def read_response(connection: Connection, **options: object) -> object:
        answer = read(connection, **options)
        if carried_out and broken == [connection] and isinstance(answer, list):
            broken.append("after it")
            raise redis_library.ConnectionError("cut")
        return answer

    monkeypatch.setattr(Connection, "send_packed_command", send_packed_command)
    monkeypatch.setattr(Connection, "read_response", read_response)


def test_a_deposed_writer_changes_nothing(redis, keys: Keys, count, counts):
    """Protects what a successor decided from a scheduler that was paused past its lease."""
    lease, other = Lease(redis, keys), watching(redis, keys)
    old = lease.try_to_take(redis)
    redis.delete(keys.lease)  # it expired
    new = other.try_to_take(redis)
    assert old is not None
    assert new is not None
    for commit in (True, False):
        with pytest.raises(DeposedError):
            old.write(counts, commit=commit)
    with pytest.raises(DeposedError), old.restoring():
        pytest.fail("another scheduler's farm")
    assert redis.get(count) is None
    new.write(counts, commit=True)
    assert redis.get(count) == b"1"
    lease.release()
    other.release()


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_server_that_lost_an_epoch_gives_it_to_one_writer(
    redis, keys: Keys, count, counts, epochs: int
):
    """A scheduler is paused while its server loses its charge, and another begins from the rest."""
    for _ in range(epochs):
        paused = Lease(redis, keys)
        old = paused.try_to_take(redis)
        paused.release()
    redis.delete(keys.fence, keys.lease)
    lease = Lease(redis, keys)
    new = lease.try_to_take(redis)
    assert old is not None
    assert new is not None
    assert new.epoch == 1
    new.write(counts, commit=True)
    with pytest.raises(LostWritesError if epochs > 1 else DeposedError):
        old.write(counts, commit=True)
    with pytest.raises(DeposedError), old.restoring():
        pytest.fail("another scheduler's farm")
    new.write(counts, commit=True)
    assert redis.get(count) == b"2"
    lease.release()


def test_a_takeover_during_a_commit_is_noticed(redis, keys: Keys, count, counts):
    """Between reading the epoch and the transaction another scheduler takes over."""
    fence = Fence(redis, keys)

    def fill(pipe) -> None:
        counts(pipe)
        redis.hincrby(keys.fence, "epoch", 1)

    with pytest.raises(DeposedError):
        fence.write(fill, commit=True)
    assert redis.get(count) is None


@pytest.mark.live
@pytest.mark.parametrize("carried_out", [True, False])
def test_a_commit_in_doubt_is_made_once(
    client, keys: Keys, count, counts, monkeypatch, carried_out: bool
):
    """The connection breaks around a commit: repeated, it counts once, and so does the next."""
    redis, fence = client, Fence(client, keys)
    fence.write(lambda pipe: pipe.set(f"{keys.prefix}notice", 1))
    with monkeypatch.context() as trouble:
        cut_once(trouble, carried_out=carried_out)
        fence.write(counts, commit=True)
    assert redis.get(count) == b"1"
    fence.write(counts, commit=True)
    assert redis.get(count) == b"2"
    assert fence.commits == int(redis.hget(keys.fence, "commits")) == 2


@pytest.mark.live
def test_a_doubtful_commit_is_settled_by_a_notice(client, keys: Keys, counts, monkeypatch):
    """A notice in between must not make the commit happen twice."""
    fence = Fence(client, keys)
    with monkeypatch.context() as trouble:
        cut_once(trouble, carried_out=True)
        trouble.setattr("farm.live.redis.leader_fencing.TRIES", 1)
        with pytest.raises(redis_library.ConnectionError):
            fence.write(counts, commit=True)
    fence.write(lambda pipe: pipe.set(f"{keys.prefix}notice", 1))
    assert fence.commits == 1


def test_writes_that_the_server_lost_are_detected(redis, keys: Keys, count, counts):
    """It was restored to an earlier state, or wiped: that is reported, and can be rewritten."""
    lease = Lease(redis, keys)
    fence = lease.try_to_take(redis)
    assert fence is not None
    lease._stop.set()  # it is too busy to renew it
    for _ in range(3):
        fence.write(counts, commit=True)
    redis.hset(keys.fence, "commits", 1)
    with pytest.raises(LostWritesError, match="the last 2 commits"):
        fence.write(counts, commit=True)
    redis.delete(keys.fence, keys.lease, count)
    with pytest.raises(LostWritesError, match="every key") as caught:
        fence.write(counts)
    assert caught.value.commits is None

    def restore(*lost_again: str) -> None:
        with fence.restoring() as write:
            write(counts)
            assert redis.hmget(keys.fence, "epoch", "commits") == [b"1", b"0"]  # not whole yet
            assert redis.exists(keys.lease), "a standby sees no farm without its holder"
            redis.delete(*lost_again, "nothing")

    with pytest.raises(redis_library.ConnectionError, match="has changed"):
        restore(keys.fence, count)
    restore()
    fence.write(counts, commit=True)
    assert redis.get(count) == b"2"
    assert redis.hmget(keys.fence, "epoch", "commits") == [b"1", b"5"]
    lease.release()


def test_a_key_of_another_type_is_named_and_the_rest_is_carried_out(
    redis, keys: Keys, count, counts
):
    """A type that is not the farm's makes one command of a transaction fail, not the others."""
    fence = Fence(redis, keys)
    redis.set(keys.jobs, "something else")

    def fill(pipe) -> None:
        pipe.hset(keys.jobs, "job", "record")
        counts(pipe)

    with pytest.raises(LostWritesError) as caught:
        fence.write(fill, commit=True)
    assert caught.value.keys == [keys.jobs]
    assert redis.get(count) == b"1"
    with fence.restoring() as write:
        write(lambda pipe: pipe.delete(keys.jobs))
    fence.write(fill, commit=True)
    assert redis.hget(keys.fence, "commits") == b"2"


@pytest.mark.parametrize(
    "epoch", [b"abc", b"-5", b"1" * 400, b"9223372036854775807", b"\xff", None]
)
def test_an_invalid_epoch_does_not_stop_the_farm(redis, keys: Keys, counts, epoch):
    """An invalid count is treated as lost: the current scheduler rewrites it, others continue."""
    first = Lease(redis, keys)
    fence = first.try_to_take(redis)
    assert fence is not None

    def spoil() -> None:
        if epoch is not None:
            redis.hset(keys.fence, "epoch", epoch)
        else:
            redis.delete(keys.fence)
            redis.set(keys.fence, "something else")

    spoil()
    with pytest.raises(LostWritesError):
        fence.write(counts, commit=True)
    with fence.restoring() as write:
        write(counts)
    fence.write(counts, commit=True)
    spoil()
    first.release()
    redis.delete(keys.lease)
    redis.hset(keys.lease, "something", "else")
    second = Lease(redis, keys)
    successor = second.try_to_take(redis)
    assert successor is not None
    successor.write(counts, commit=True)
    assert redis.type(keys.lease) == b"string"
    second.release()


@pytest.mark.live
def test_a_transaction_costs_one_round_trip(client, keys: Keys, count, counts, monkeypatch):
    """A farm at rest, and a job, is as cheap as the number of its round trips."""
    fence = Fence(client, keys)
    fence.write(counts, commit=True)
    sent = list[object]()
    send = Connection.send_packed_command

    def counted(connection: Connection, data: object, **options: object) -> None:
        sent.append(data)
        send(connection, data, **options)

    monkeypatch.setattr(Connection, "send_packed_command", counted)
    for _ in range(3):
        fence.write(counts, commit=True)
    assert len(sent) == 3
    assert client.get(count) == b"4"
