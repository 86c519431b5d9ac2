"""The service `setup`: what it checks, and what it makes once."""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def set_up(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the service `setup`, with its folders in tmp_path, in such an environment."""
    text = (ROOT / "deploy/bin/farm-setup").read_text()
    for place in ("app/services", "services", "secrets", "builder-secrets", "tls"):
        (tmp_path / place).mkdir(parents=True)
    places = r"(?<= )/(?=(app|services|secrets|builder-secrets|tls)/)"
    text = re.sub(places, f"{tmp_path}/", text).replace(" /secrets >", f" {tmp_path}/secrets >")

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-c", text], env={"PATH": path, **environment}, capture_output=True, text=True
        )

    return run


def test_a_machine_that_is_too_small_is_refused_with_words(set_up):
    """Before anything is stored: what there is, what is needed, how to try it all the same."""
    for what in ("MEMORY", "DISK"):
        done = set_up(**{f"FARM_MIN_{what}_MB": "999999999"})
        assert done.returncode == 2
        said = rf"setup: .* \d+ MB of .*{what.lower()}; needed: 999999999 MB \(FARM_MIN_{what}_MB=0"
        assert re.match(said, done.stderr), done.stderr


@pytest.mark.slow
def test_a_certificate_is_made_for_the_names_of_the_server(set_up, tmp_path, tool):
    """Once, again for other names; one that was put there stays. Clients check it strictly."""
    tool("openssl")
    made = tmp_path / "tls/server.crt"

    def certificate(names: str) -> bytes:
        done = set_up(FARM_TLS_NAMES=names)
        assert done.returncode == 0, done.stderr
        return made.read_bytes()

    assert set_up().returncode == 0
    assert not made.exists()
    first = certificate("localhost,127.0.0.1")
    assert certificate("localhost,127.0.0.1") == first
    second = certificate("redis.example,10.0.0.7,::1")
    assert second != first
    for name in ("redis.example", "10.0.0.7", "::1"):
        shake_hands(tmp_path / "tls", name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tmp_path / "tls", "localhost")
    (tmp_path / "tls/names").unlink()
    assert certificate("localhost") == second, "not ours"


def shake_hands(folder: Path, name: str) -> None:
    """Let a strict client that knows ca.crt connect to a server of this name, in memory."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    for end in ends * 2:
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert ends[0].version() is not None


@pytest.mark.parametrize(
    "names",
    [
        "a b",
        ",a",
        *(pytest.param(names, marks=pytest.mark.slow) for names in ("a,,b", "a,", "a;b")),
    ],
)
def test_names_of_a_server_that_are_none_are_refused(set_up, names):
    """Found, and allowed; no certificate is made."""
    done = set_up(FARM_TLS_NAMES=names)
    assert (done.returncode, f"FARM_TLS_NAMES: found '{names}'; allowed:" in done.stderr) == (
        2,
        True,
    )


def test_passwords_are_made_once(set_up, tmp_path):
    """At the first start, and kept at the next; the admin's can be given."""

    def made(**environment: str) -> dict[str, str]:
        assert set_up(**environment).returncode == 0
        return {file.name: file.read_text().strip() for file in (tmp_path / "secrets").iterdir()}

    first = made()
    assert min(map(len, first.values())) >= 24
    assert made() == first
    assert (tmp_path / "builder-secrets/farm-builder").read_text().strip() == first["farm-builder"]
    given = made(FARM_REDIS_PASSWORD="my own")
    assert {name for name in first if given[name] != first[name]} == {"farm-admin", "users.acl"}
    assert given["farm-admin"] == "my own"
