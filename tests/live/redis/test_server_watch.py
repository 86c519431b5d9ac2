"""Metrics of the Redis server: read from a real one, and from one that is away."""

from __future__ import annotations

import subprocess

import pytest
from prometheus_client import generate_latest

from farm.live.redis.server import choose_server
from farm.live.redis.server_watch import ServerWatch, readings_of, trouble_readings
from farm.live.redis.trouble import Trouble
from farm.metrics.catalogue import REDIS
from farm.metrics.exporter import registry_of

INFO = {
    "used_memory": 900,
    "maxmemory": 1000,
    "total_system_memory": 9000,
    "connected_clients": 3,
    "maxclients": 10,
    "total_commands_processed": 70,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
    "aof_current_size": 12,
    "rdb_last_bgsave_status": "err",
}


def number(readings, name: str) -> float:
    """Return a metric's one value."""
    return readings[f"farm_redis_{name}"][()]


def test_every_metric_of_the_catalogue_has_a_value():
    """None of them is empty for a server that answers."""
    assert {*readings_of(INFO, 1, 2), *trouble_readings()} == set(REDIS)


def test_promtool_finds_nothing_to_complain_about(tool):
    """Names, units, help texts."""
    readings = {**readings_of(INFO, 1, 2), **trouble_readings(Trouble("disk"))}
    text = generate_latest(registry_of(lambda: readings, process=False))
    check = [tool("promtool"), "check", "metrics"]
    run = subprocess.run(check, input=text, capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_the_limit_is_maxmemory_or_else_the_machines():
    """Redis without a limit can use the machine's memory."""
    assert number(readings_of(INFO, 1, 2), "memory_limit_bytes") == 1000
    assert number(readings_of(INFO | {"maxmemory": 0}, 1, 2), "memory_limit_bytes") == 9000


@pytest.mark.parametrize(
    ("other", "ok"),
    [
        ({}, 1),
        ({"aof_last_write_status": "err"}, 0),
        ({"aof_last_bgrewrite_status": "err"}, 0),
        ({"aof_enabled": 0}, 0),
        ({"aof_enabled": 0, "rdb_last_bgsave_status": "ok"}, 1),
    ],
)
def test_a_failed_save_is_reported(other, ok):
    """Of the append-only file if there is one, else of the snapshots."""
    assert number(readings_of(INFO | other, 1, 2), "persistence_ok") == ok


@pytest.mark.live
def test_a_real_server_is_read_and_its_absence_reported():
    """Reports in the inbox are counted; afterwards only the absence is known."""
    server = choose_server(None)
    with server:
        watch = ServerWatch(server.url, "test:")
        watch._client.xadd("test:reports", {"m": b"x"})
        watch.look()
        told = watch.readings()
        assert number(told, "up") == number(told, "inbox_length") == number(told, "keys") == 1
        assert 0 < number(told, "memory_bytes") <= number(told, "memory_limit_bytes")
        assert number(told, "clients") >= 1
    watch.look()
    told = watch.readings()
    assert set(told) == {"farm_redis_up", "farm_server_trouble"}
    assert number(told, "up") == 0
    assert {kind for (kind,), there in told["farm_server_trouble"].items() if there} == {"gone"}


@pytest.mark.live
def test_the_thread_polls_until_it_is_stopped():
    """Each answer is a new value; no thread is left after the block."""
    with choose_server(None) as server, ServerWatch(server.url, "test:", 0.01) as watch:
        seen = {id(watch.readings()): watch.readings()}
        while len(seen) < 3:
            seen[id(watch.readings())] = watch.readings()
    assert not watch._thread.is_alive()
