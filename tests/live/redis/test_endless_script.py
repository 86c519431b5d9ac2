"""A script without an end on the farm's own server: ended, or the server is started again."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from farm.core.errors import ServerError
from farm.live.redis import server as server_module
from farm.live.redis.connection import connect
from farm.live.redis.server import EmbeddedServer, choose_server
from farm.processes.identity import began_at
from tests.fixtures.processes import await_gone, until

pytestmark = pytest.mark.live
ENDLESS = "while true do end"
WRITES_FIRST = "redis.call('SET', 'x', 1) while true do end"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server whose data are kept, and that says soon that a script keeps it busy."""
    server = choose_server(None, data=tmp_path / "data")
    assert isinstance(server, EmbeddedServer)
    with server:
        with contextlib.closing(connect(server.url, "test")) as client:
            client.config_set("lua-time-limit", 50)
            client.set("kept", 1)
        yield server


def run(server: EmbeddedServer, script: str) -> threading.Thread:
    """Let a client run a script, and wait until the server says that it is busy."""

    def client_of_script() -> None:
        with contextlib.suppress(redis.RedisError), connect(server.url, "script") as client:
            client.eval(script, 0)

    def is_busy() -> bool:
        with contextlib.closing(redis.Redis.from_url(server.url)) as client:
            try:
                client.ping()
            except redis.ResponseError as error:
                return "BUSY" in str(error)
        return False

    thread = threading.Thread(target=client_of_script, daemon=True)
    thread.start()
    until(is_busy, "the script")
    return thread


def looks(server: EmbeddedServer, monkeypatch) -> None:
    """Let the keeper look at the server every second for a while."""
    now = 1000.0
    for second in range(13):
        monkeypatch.setattr(server_module, "_now", lambda at=now + second: at)
        server.revive()


@pytest.mark.parametrize("script", [ENDLESS, WRITES_FIRST])
def test_an_endless_script_is_ended_or_its_server_started_again(
    own_server: EmbeddedServer, monkeypatch, script: str
):
    """All of the farm stood still without end: a script that has written cannot be ended."""
    pid = own_server.pid
    thread = run(own_server, script)
    looks(own_server, monkeypatch)
    thread.join(30)
    with contextlib.closing(connect(own_server.url, "test")) as client:
        assert client.get("kept") == b"1"
    assert (own_server.pid == pid) is (script == ENDLESS)


def test_a_script_that_ends_soon_is_left_alone(own_server: EmbeddedServer, monkeypatch):
    """An administrator's may take some seconds."""
    thread = run(own_server, ENDLESS)
    for second in range(4):
        monkeypatch.setattr(server_module, "_now", lambda at=1000.0 + second: at)
        own_server.revive()
        assert own_server.look_again_in < 5.0
    assert thread.is_alive()
    with contextlib.closing(redis.Redis.from_url(own_server.url)) as client:
        with pytest.raises(redis.ResponseError, match="BUSY"):
            client.ping()
        client.script_kill()
    thread.join(30)
    own_server.revive()
    assert own_server.look_again_in >= 5.0
    assert not math.isinf(own_server.look_again_in)


def test_a_server_that_outlived_its_farm_is_ended_by_the_next(
    own_server: EmbeddedServer, tmp_path: Path, monkeypatch
):
    """It does not obey in its script, and kept the farm's data: no farm came up there again."""
    monkeypatch.setattr(server_module, "START_TIMEOUT", 5.0)
    monkeypatch.setattr(server_module, "LET_GO_TIMEOUT", 0.2)
    monkeypatch.setattr(server_module, "STOP_TIMEOUT", 0.5)
    run(own_server, WRITES_FIRST)
    with EmbeddedServer(own_server.binary, data=tmp_path / "data") as second:
        assert not began_at(own_server.pid)
        with contextlib.closing(connect(second.url, "test")) as client:
            assert client.get("kept") == b"1"


def test_a_server_that_cannot_be_ended_is_named(own_server: EmbeddedServer, tmp_path, monkeypatch):
    """It was to be ended, and no message said which process that is."""
    monkeypatch.setattr(server_module, "LET_GO_TIMEOUT", 0.0)
    monkeypatch.setattr(server_module, "end_left_over", lambda *_: None)
    named = rf"another server still writes to .*\(process {own_server.pid}\)"
    with pytest.raises(ServerError, match=named):
        EmbeddedServer(own_server.binary, data=tmp_path / "data").start()
    os.kill(own_server.pid, signal.SIGKILL)
    await_gone([own_server.pid])
