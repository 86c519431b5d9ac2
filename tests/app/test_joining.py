"""The command with which another machine joins a farm."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError

from farm.live.redis.connection import connect
from farm.live.redis.server import EmbeddedServer
from tests.conftest import Said

SERVER = "rediss://me:mine@redis.example:6380/0?ssl_ca_certs=/ca.crt"


def settings_of(line: str) -> dict[str, str]:
    """Return the variables that a command line sets before its command."""
    words = shlex.split(line)
    return dict(word.split("=", 1) for word in words[: words.index("celery")])


def test_each_machine_has_a_command_and_a_user(farm: Callable[..., Said], tmp_path: Path):
    """It contains no password, neither the admin's nor the builder's: that is in a file."""
    farm("admin", "acl", "builder", "--host", "a", "--host", "b")
    found = farm(
        "admin", "join", SERVER, "--host", "a", "--host", "b", "--room", 2, "--pool", "my pool"
    )
    first, second = found.out.splitlines()
    assert settings_of(first) == {
        "FARM_REDIS_URL": "rediss://farm-builder-a@redis.example:6380/0?ssl_ca_certs=/ca.crt",
        "FARM_REDIS_PASSWORD_FILE": "farm-passwords/farm-builder-a",
        "FARM_HOST": "a", "FARM_HOST_ROOM": "2", "FARM_HOST_POOL": "my pool",
    }  # fmt: skip
    assert second.endswith("--hostname b@farm")
    passwords = [path.read_text().strip() for path in (tmp_path / "farm-passwords").iterdir()]
    assert len(passwords) == 2
    assert not any(word in found.out + found.err for word in [*passwords, "mine"])
    assert "warning" not in found.err


def test_the_user_is_made_on_the_server(farm: Callable[..., Said], server: EmbeddedServer):
    """The admin makes it; it can report, and no more. Without TLS there is a warning."""
    found = farm("admin", "join", "redis://10.1.2.3:6379/0", "--redis", server.url)
    assert found.code == 0
    assert "without TLS" in found.err
    assert "FARM_HOST=" not in found.out, "each machine that runs it has a name of its own"
    password = Path("farm-passwords/farm-builder").read_text().strip()
    place = server.url.rpartition("@")[2]
    with closing(connect(f"redis://farm-builder:{password}@{place}", "t")) as client:
        assert client.xadd("farm:reports", {"m": b""})
        with pytest.raises(NoPermissionError):
            client.get("farm:meta")


@pytest.mark.parametrize(
    "server",
    [
        "localhost:6379",
        "redis://:secret@127.0.0.1:1/0",
        "unix:///tmp/s",
        "rediss://[::1]",
        "rediss://[x",
    ],
)
def test_a_server_that_no_other_machine_reaches_is_refused(farm: Callable[..., Said], server: str):
    """With what was found (without its password) and what is allowed; no password is generated."""
    found = farm("admin", "join", server)
    assert found.code == 2
    assert "allowed: rediss://HOST:PORT/0" in found.err
    assert "secret" not in found.err
    assert not Path("farm-passwords").exists()


def test_a_user_without_a_password_is_refused_where_none_can_be_made(farm: Callable[..., Said]):
    """The server would not know a password generated here."""
    found = farm("admin", "join", SERVER)
    assert found.code == 2
    assert "farm-passwords/farm-builder: found no such file" in found.err
    assert not Path("farm-passwords").exists()
