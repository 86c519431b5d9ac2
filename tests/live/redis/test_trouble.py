"""Temporary trouble with the server is reported, waited for, and does not end the farm."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from farm.core.errors import RunError
from farm.live.redis.connection import connect
from farm.live.redis.trouble import KINDS, ServerCalls, trouble_in, trouble_of
from farm.processes.identity import began_at
from tests.fixtures.processes import stop
from tests.worlds.up import Up, disturbed

#: real seconds that a trouble lasts: long enough for silent hosts to be lost
LONG = 3.0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (redis.ConnectionError("Connection refused"), "gone"),
        (redis.TimeoutError("Timeout reading from socket"), "gone"),
        (redis.AuthenticationError("invalid username-password pair"), "refused"),
        (redis.exceptions.NoPermissionError("no permissions"), "denied"),
        (redis.BusyLoadingError("Redis is loading"), "loading"),
        (redis.ReadOnlyError("You can't write against a read only replica."), "read-only"),
        (redis.OutOfMemoryError("command not allowed"), "memory"),
        (redis.ResponseError("BUSY Redis is busy running a script."), "busy"),
        (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), "read-only"),
        (redis.ResponseError("MISCONF Errors writing to the AOF file: No space left"), "disk"),
        (
            redis.exceptions.ExecAbortError("Transaction discarded because of: OOM command not …"),
            "memory",
        ),
        (redis.ResponseError("WRONGTYPE Operation against a key"), None),
        (
            redis.ResponseError("Command # 1 (SET a OOM ) of pipeline caused error: ERR syntax"),
            None,
        ),
        (redis.WatchError("Watched variable changed."), None),
    ],
)
def test_what_an_error_means(error: redis.RedisError, kind: str | None):
    """Temporary errors differ from permanent ones, and a job's content never decides which."""
    found = trouble_of(error)
    assert (found and found.kind) == kind


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        ({}, None),
        ({"loading": 1}, "loading"),
        ({"role": "slave"}, "read-only"),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, "disk"),
        ({"aof_enabled": 1, "rdb_last_bgsave_status": "err"}, None),
        ({"rdb_last_bgsave_status": "err"}, "disk"),
        ({"used_memory": 9, "maxmemory": 9, "maxmemory_policy": "noeviction"}, "memory"),
        ({"used_memory": 9, "maxmemory": 9, "maxmemory_policy": "allkeys-lru"}, None),
        ({"used_memory": 9, "maxmemory": 0, "maxmemory_policy": "noeviction"}, None),
    ],
)
def test_what_a_server_says_of_itself(info: dict, kind: str | None):
    """A full server answers reads: readers see what its scheduler cannot write."""
    found = trouble_in(info)
    assert (found and found.kind) == kind


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def test_a_gone_server_is_given_up_after_the_limit_and_a_full_one_never(caplog):
    """A run may end without a server; a full server needs an operator."""
    clock, well_at = Clock(), list[float]()
    call = ServerCalls(30.0, clock.wait, lambda: well_at.append(clock.now), lambda: clock.now)

    def full_for_an_hour() -> str:
        if clock.now < 3600:
            raise redis.OutOfMemoryError("command not allowed")
        return "done"

    assert call(full_for_an_hour) == "done"
    assert [line for line in caplog.messages if KINDS["memory"] in line] == caplog.messages[:-1]
    assert "well again after 36" in caplog.messages[1]
    assert well_at == [clock.now]
    assert clock.now >= 3600
    assert call.trouble is None

    def gone() -> None:
        raise redis.ConnectionError("refused")

    began = clock.now
    restarts_at = began + 60

    def full_and_then_gone() -> None:
        if clock.now < restarts_at:
            raise redis.OutOfMemoryError("command not allowed")
        gone()

    with pytest.raises(RunError, match=r"gone for 30s \(refused\)"):
        call(full_and_then_gone)
    assert 30 < clock.now - restarts_at < 32, "its absence counts, not what was before"


def test_a_stop_request_ends_the_wait_and_a_wrong_command_is_not_repeated():
    """Who asks for the end is not kept waiting; a defect is not hidden by retries."""
    calls = list[int]()

    def failing(error: redis.RedisError) -> None:
        calls.append(1)
        raise error

    with pytest.raises(RunError, match=r"stopped while there was trouble .*maxmemory"):
        ServerCalls(None, lambda _: len(calls) == 3)(
            lambda: failing(redis.OutOfMemoryError("command not allowed"))
        )
    assert len(calls) == 3
    with pytest.raises(RunError, match="refuses calls: wrong number"):
        ServerCalls(None, lambda _: False)(
            lambda: failing(redis.ResponseError("wrong number of arguments"))
        )
    assert len(calls) == 4


@pytest.fixture(scope="module")
def farm(tmp_path_factory) -> Iterator[Up]:
    """A running farm, for all troubles one after the other."""
    with disturbed(tmp_path_factory.mktemp("troubled")) as up:
        yield up


@pytest.fixture(scope="module")
def client(farm: Up) -> Iterator[redis.Redis]:
    """A connection to its server."""
    with contextlib.closing(connect(farm.place.redis_url, "test")) as connection:
        yield connection


def _full_memory(client: redis.Redis) -> Callable[[], object]:
    """Leave less memory than there is data; clients may use what they could before.

    Their limit is a share of all memory, so that of a megabyte would close every connection.
    """
    before = {name: client.config_get(name)[name] for name in ("maxmemory-clients", "maxmemory")}
    client.config_set("maxmemory-clients", "0")
    client.config_set("maxmemory", "1mb")
    return lambda: [client.config_set(name, value) for name, value in before.items()]


def _replica(client: redis.Redis) -> Callable[[], object]:
    client.replicaof("127.0.0.1", "1")
    return lambda: client.replicaof("NO", "ONE")


def _changed_password(client: redis.Redis) -> Callable[[], object]:
    password = client.config_get("requirepass")["requirepass"]
    client.config_set("requirepass", "another")
    client.client_kill_filter(_type="normal", skipme=True)
    return lambda: client.config_set("requirepass", password)


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize(
    ("kind", "begin"),
    [("memory", _full_memory), ("read-only", _replica), ("refused", _changed_password)],
)
def test_a_farm_continues_by_itself_when_the_trouble_is_over(farm: Up, client, kind, begin):
    """No process ends, the trouble is reported once, and all jobs are done afterwards."""
    jobs = [f"{kind}-{number}" for number in range(12)]
    services = farm.services()
    farm.submit(*jobs)
    paused, well = (farm.said(words, "scheduler") for words in ("work pauses", "well again"))
    began = time.monotonic()
    end = begin(client)
    try:
        farm.until(lambda: farm.said(KINDS[kind], "scheduler"), "saying it")
        assert farm.trouble() == kind
        farm.until(lambda: time.monotonic() > began + LONG, "time to pass")
    finally:
        end()
    farm.until_ended(*jobs)
    # the ends are in the server a moment before the line is in the log
    farm.until(lambda: farm.said("well again", "scheduler") > well, "saying that it is over")
    assert farm.services() == services
    # twice where a waiting read is broken off first, and the next one answered
    assert 1 <= farm.said(KINDS[kind], "scheduler") <= 2
    # a pause may have two causes: a connection is lost ("gone"), and the next one refused
    pauses = farm.said("work pauses", "scheduler") - paused
    assert 1 <= farm.said("well again", "scheduler") - well <= pauses <= 4
    assert farm.said("its host is silent", "scheduler") == 0
    assert farm.trouble() is None


@pytest.mark.live
def test_starting_a_server_is_retried_until_it_succeeds(farm: Up, client):
    """Its data need repair: the farm waits for that, and continues with the server's data."""
    jobs = [f"gone-{number}" for number in range(12)]
    services, again = farm.services(), "tried again until it comes up"
    farm.submit(*jobs)
    # with a slow disk a killed server may lose what it acknowledged, if no scheduler has read it
    farm.until(lambda: farm.state_of(jobs[-1]) != "unknown", "taking them in")
    manifest = farm.folder / ".farm/redis/appendonlydir/appendonly.aof.manifest"
    sound = manifest.read_bytes()
    manifest.write_text("nonsense")
    os.kill(int(client.info("server")["process_id"]), signal.SIGKILL)
    farm.until(lambda: farm.said(again, "farm"), "saying it")
    farm.until(lambda: farm.said(KINDS["gone"], "scheduler"), "the scheduler's saying it")
    manifest.write_bytes(sound)
    farm.until_ended(*jobs)
    assert farm.services() == services
    assert farm.said(again, "farm") == 1
    # a standby that was still coming up ends without a server, and is started again as well
    assert farm.said("the server had ended unasked: started again", "farm") == 1


@pytest.mark.live
def test_a_farm_whose_server_is_emptied_is_rewritten(farm: Up, client):
    """FLUSHALL: no job is lost or run twice, and what is lost is counted."""
    services = farm.services()
    farm.submit("before")
    farm.until_ended("before")
    farm.farm("submit", "--id", "f", "--count", "12", "--service-time", "2s", "--quiet")
    jobs = [f"f-{number}" for number in range(1, 13)]
    farm.until(lambda: farm.state_of(jobs[0]) == "running", "a start")
    client.flushall()
    lost = "has lost every key of this farm"
    farm.until(lambda: farm.said(lost, "scheduler"), "noticing it")
    assert farm.said("12 live jobs are written anew", "scheduler") == 1
    farm.until_ended("before", *jobs)
    assert farm.services() == services
    assert farm.attempts("before", *jobs) == [1] * 13
    again = farm.farm("submit", "--id", "before", "--service-time", "1s", code=2)
    assert "known" in again


@pytest.mark.slow
@pytest.mark.live
def test_a_server_that_lost_its_last_seconds_is_rewritten(farm: Up, client):
    """As after a loss of power: jobs that had ended stay ended, the others continue."""
    farm.submit("early")
    farm.until_ended("early")
    folder, copy = farm.folder / ".farm/redis", farm.folder / "copy"
    shutil.copytree(folder, copy)
    farm.submit("late-1", "late-2")
    farm.until_ended("late-1", "late-2")
    farm.submit("waits", service_time="5s")
    farm.until(lambda: farm.state_of("waits") == "running", "a start")
    keeper = farm.place.pid
    stop(keeper)
    try:
        os.kill(pid := int(client.info("server")["process_id"]), signal.SIGKILL)
        farm.until(lambda: not began_at(pid), "the server's end")
        shutil.rmtree(folder)
        copy.rename(folder)
    finally:
        os.kill(keeper, signal.SIGCONT)
    # the one that leads, or the standby, if that had no lease for too long
    farm.until(lambda: farm.said("has lost the last", "s[ct]*"), "noticing it")
    farm.until_ended("early", "late-1", "late-2", "waits")
    assert farm.attempts("early", "late-1", "late-2") == [1] * 3
