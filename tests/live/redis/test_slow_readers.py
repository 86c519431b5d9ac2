"""A client that asks for much and reads nothing: the farm's server keeps its memory."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import msgspec
import pytest
import yaml

from farm.app.long_running.access import unlimited
from farm.core.errors import ServerError
from farm.core.events import JobsSubmitted
from farm.core.model import Job, Platform
from farm.live.redis import server as server_module
from farm.live.redis.connection import check_server, connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import NEEDED_MEMORY, EmbeddedServer, choose_server, memory_limit
from farm.live.redis.trouble import diagnose
from farm.live.store.saved import FarmReader
from farm.live.wire.messages import UNSTAMPED
from farm.live.wire.reporter import EnvelopeMaker
from tests.fixtures.store import waiting_record
from tests.worlds.stepwise import Clock, Leader

ROOT = Path(__file__).parents[3]
MB = 1 << 20
AMD64 = Platform("amd64", True)


class SilentReader:
    """A connection that sends commands and never reads what comes back."""

    def __init__(self, url: str) -> None:
        password, port = re.findall(r":([^@:]+)@[^:]+:(\d+)/", url)[0]
        self._socket = socket.create_connection(("127.0.0.1", int(port)), 10)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.send("AUTH", password)

    def send(self, *words: str, times: int = 1) -> None:
        """Send a command; a connection that the server has closed takes none."""
        command = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        with contextlib.suppress(OSError):
            self._socket.sendall(command.encode() * times)

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()


@pytest.mark.live
@pytest.mark.slow
def test_readers_that_do_not_read_take_no_memory_from_the_farm(keys: Keys):
    """Four of them made the server grow from 12 to 925 MB: nothing was booked for a minute."""
    server = choose_server(None)
    assert isinstance(server, EmbeddedServer)
    with contextlib.ExitStack() as stack:
        stack.enter_context(server)
        client = stack.enter_context(contextlib.closing(connect(server.url, "test")))
        leader = Leader(client, keys, Clock())
        text = {"text": "x" * 300}
        jobs = (Job(id=f"j{n}", service_time=1.0, attributes=text) for n in range(20_000))
        many = {job.id: msgspec.json.encode(waiting_record(job)) for job in jobs}
        client.hset(keys.jobs, mapping=many)
        client.config_set("maxmemory", str(400 * MB))
        epoch = leader.world._store.fence.epoch
        for _ in range(4):
            reader = SilentReader(server.url)
            stack.callback(reader.close)
            reader.send("HGETALL", keys.jobs, times=40)
        (envelope,) = EnvelopeMaker("operator").envelopes(
            JobsSubmitted(UNSTAMPED, (Job(id="probe", service_time=1.0, platform=AMD64),))
        )
        client.xadd(keys.stream("submissions"), {"m": envelope})
        leader.turn()
        leader.turn()
        assert client.hexists(keys.jobs, "probe")
        assert client.hget(keys.fence, "epoch") == str(epoch).encode()
        # the server has been through all that they asked
        assert client.info("memory")["used_memory_peak"] < 400 * MB


@pytest.mark.live
def test_a_server_of_the_farm_limits_its_clients():
    """And its memory; who makes users on another one is told what is missing there."""
    with choose_server(None) as server:
        assert unlimited(server.url) == []
        with contextlib.closing(connect(server.url, "test")) as client:
            client.config_set("client-output-buffer-limit", "normal 0 0 0")
            client.config_set("maxmemory", "0")
        assert unlimited(server.url) == ["maxmemory", "client-output-buffer-limit"]


@pytest.mark.parametrize(("pages", "limit"), [(64, 16), (4, 1.6e9 / 2**30), (1, 0.75)])
def test_the_memory_of_the_farms_own_server_follows_the_machines(monkeypatch, pages, limit):
    """A quarter of it, but what the farm's waiting jobs need if there is so much."""
    sizes = {"SC_PHYS_PAGES": pages, "SC_PAGE_SIZE": 1 << 30}
    monkeypatch.setattr(server_module.os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(Path, "read_text", lambda *_: "max")
    assert memory_limit() == pytest.approx(limit * 2**30, rel=0.001)
    assert NEEDED_MEMORY > 2_000_000 * 575


def test_deployed_servers_limit_their_clients():
    """In Compose, in a Swarm and on Kubernetes, as ``farm up`` does."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["redis"]
    swarm = yaml.safe_load((ROOT / "deploy/swarm.yaml").read_text())["services"]["redis"]
    manifest = (ROOT / "deploy/kubernetes/farm.yaml").read_text()
    commands = [
        found["spec"]["template"]["spec"]["containers"][0]["command"]
        for found in yaml.safe_load_all(manifest)
        if found and found["metadata"]["name"] == "redis" and "template" in found.get("spec", {})
    ]
    for command in (compose["command"], swarm["command"], *commands):
        words = command if isinstance(command, str) else " ".join(command)
        assert "--maxmemory-clients 20%" in words
        assert re.search(r"--client-output-buffer-limit normal 128mb 64mb 30", words)
    assert len(commands) == 1


@pytest.mark.live
def test_a_successor_reads_the_farm_in_pages(client, keys: Keys):
    """An answer of all waiting jobs would exceed the limit: no scheduler could begin."""
    Leader(client, keys, Clock())
    jobs = {f"j{n}": msgspec.json.encode(waiting_record(Job(id=f"j{n}", service_time=1.0)))
            for n in range(1500)}  # fmt: skip
    client.hset(keys.jobs, mapping=jobs)
    before = client.info("commandstats").get("cmdstat_hgetall", {"calls": 0})["calls"]
    assert len(FarmReader(client, keys).jobs()) == 1500
    after = client.info("commandstats").get("cmdstat_hgetall", {"calls": 0})["calls"]
    assert after == before


@pytest.mark.live
def test_a_server_with_too_many_connections_says_so():
    """Also without a password: everyone was locked out, and the server seemed to be away."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(choose_server(None))
        client = stack.enter_context(contextlib.closing(connect(server.url, "test")))
        client.config_set("maxclients", 5)
        readers = [SilentReader(server.url) for _ in range(8)]
        for reader in readers:
            stack.callback(reader.close)
        other = stack.enter_context(contextlib.closing(connect(server.url, "other")))
        with pytest.raises(ServerError, match=r"as many connections as it may \(maxclients\)"):
            check_server(other, server.url)
        trouble = diagnose(other)
        assert trouble is not None
        assert trouble.kind == "clients"
        assert client.ping()
