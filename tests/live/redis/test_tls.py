"""A farm on a server that is reached by TLS only: all its processes, and every command."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import kombu
import pytest

from farm.core.errors import ServerError
from farm.live.redis.connection import check_server, connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import EmbeddedServer, choose_server
from tests.fixtures.processes import own_port, running
from tests.fixtures.tls import TLS_ONLY, certificates, needs_tls, until_up
from tests.worlds.up import Up
from workers.celery_app import celery_app

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tool: Callable[[str], str]) -> Path:
    """A folder with a certificate authority (ca.crt) and a server's key that it signed."""
    made = tmp_path_factory.mktemp("tls")
    certificates(made, tool("openssl"), "DNS:localhost", "IP:127.0.0.1")
    return made


@pytest.fixture(scope="module")
def place(folder: Path, tool: Callable[[str], str]) -> Iterator[str]:
    """The URL of a server that speaks only TLS: ``rediss://:PASSWORD@HOST:PORT/0``."""
    server = choose_server(None)
    assert isinstance(server, EmbeddedServer)
    needs_tls(server.binary, tool("openssl"))
    port = own_port()
    options = f"--tls-port {port} --bind 127.0.0.1 --save '' --requirepass secret"
    url = f"rediss://:secret@localhost:{port}/0"
    with running([server.binary, *TLS_ONLY, *shlex.split(options)], folder, "server.log"):
        with contextlib.closing(connect(f"{url}?ssl_ca_certs={folder}/ca.crt", "t")) as client:
            until_up(client)
        yield url


@pytest.mark.slow
def test_a_farm_works_by_tls(tmp_path: Path, folder: Path, place: str, monkeypatch):
    """Scheduler, provisioner, hosts and commands, with the authority named in the environment.

    In the URL it is with three machines.
    """
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.crt"))
    up = Up(tmp_path)
    with up.running("--redis", place, "--fresh", "--quiet"):
        up.submit("job", service_time="10s")
        up.until_ended("job")
    assert "secret" not in up.logs()


def test_a_server_of_another_authority_is_refused(place: str):
    """By the farm, and by Celery: no password is sent to a man in the middle."""
    with (
        contextlib.closing(connect(place, "t")) as client,
        pytest.raises(ServerError, match="certificate verify failed"),
    ):
        check_server(client, place)
    app = celery_app(place, Keys(), "h")
    with (
        app.connection_for_read() as connection,
        pytest.raises(kombu.exceptions.OperationalError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        connection.ensure_connection(max_retries=1, interval_start=0)


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_a_server_must_answer_by_tls(in_ci, outcome, tmp_path: Path, tool, monkeypatch):
    """That it knows the options shows nothing; at a desk its tests are skipped, in CI they fail."""
    openssl = tool("openssl")
    monkeypatch.setenv("FARM_CI", in_ci)
    knows_options = tmp_path / "redis-server"
    knows_options.write_text("#!/bin/sh\necho '1:M 1 Jan 1970 # Failed finding TLS support.'\n")
    knows_options.chmod(0o755)
    with pytest.raises(outcome, match=rf"{knows_options} said: Failed finding TLS support\."):
        needs_tls(knows_options, openssl)
