"""What the tests of the live world share: servers, a cuttable wire, a whole farm."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import fakeredis
import pytest

from farm.core.model import Platform
from farm.live.live_options import LiveOptions
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import EmbeddedServer, Server
from tests.fixtures.wire import Wire
from tests.worlds.up import Service

AMD64 = Platform("amd64", True)
_serial = itertools.count()


@pytest.fixture
def keys() -> Keys:
    """Keys that no other test uses."""
    return Keys(f"test{os.getpid()}-{next(_serial)}:")


@pytest.fixture
def client(server: Server):
    """A connection to the real server."""
    with contextlib.closing(connect(server.url, "test")) as connection:
        yield connection


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.live)])
def redis(request):
    """A client of the fake, then of the real server."""
    if request.param == "real":
        return request.getfixturevalue("client")
    return fakeredis.FakeRedis(protocol=2)


@pytest.fixture
def wire(server: EmbeddedServer) -> Iterator[Wire]:
    """A cuttable wire to the shared server."""
    address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1].split("/")[0]))
    proxy = Wire(socket.create_server(("127.0.0.1", 0)), lambda: socket.create_connection(address))
    yield proxy
    proxy.close()


@pytest.fixture
def hostless(server: Server, keys: Keys, tmp_path: Path) -> Iterator[Service]:
    """A long-running farm without a scheduler or hosts yet; nothing is left of it."""
    found = Service(server, keys, tmp_path)
    yield found
    found.close()


@pytest.fixture
def options(keys: Keys, tmp_path: Path) -> Callable[..., LiveOptions]:
    """Make options of a live farm with its own keys on its own server."""
    own = {"prefix": keys.prefix, "log_folder": tmp_path, "beat_interval": 0.25}
    return lambda **more: LiveOptions(**{**own, **more})
