"""The service `setup`: what it checks, and what it makes once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
#: which passwords each service can read, by the volume that it mounts
HOLDERS = {
    "redis": {"users.acl", "farm-reader"},
    "scheduler": {"farm-scheduler"},
    "provisioner": {"farm-provisioner", "farm-builder"},
    "submitter": {"farm-submitter"},
    "builder": {"farm-builder"},
}


@pytest.fixture
def set_up(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the service `setup`, with its folders in tmp_path, in such an environment."""
    text = (ROOT / "deploy/bin/farm-setup").read_text()
    shared = [f"secrets-of/{service}" for service in (*HOLDERS, "alertmanager")]
    for place in (
        "app/services/prometheus",
        "app/examples",
        "services",
        "scenarios",
        "secrets",
        "tls",
        *shared,
    ):
        (tmp_path / place).mkdir(parents=True)
    places = r"(?<=[ =\"#])/(?=(?:app|services|scenarios|secrets|secrets-of|tls)\b)"
    text = re.sub(places, f"{tmp_path}/", text)

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
        *(pytest.param(names, marks=pytest.mark.slow) for names in (",a", "a,,b", "a,", "a;b")),
    ],
)
def test_names_of_a_server_that_are_none_are_refused(set_up, names):
    """Found, and allowed; no certificate is made."""
    done = set_up(FARM_TLS_NAMES=names)
    assert (done.returncode, f"FARM_TLS_NAMES: found '{names}'; allowed:" in done.stderr) == (
        2,
        True,
    )


def test_passwords_are_made_once_and_each_service_is_given_those_that_it_needs(set_up, tmp_path):
    """They are kept at the next start, and the admin's can be given.

    What breaks into the load service must not be able to connect as the admin.
    """

    def made(**environment: str) -> dict[str, str]:
        assert set_up(**environment).returncode == 0
        return {file.name: file.read_text().strip() for file in (tmp_path / "secrets").iterdir()}

    first = made()
    assert min(map(len, first.values())) >= 24
    # of an earlier release, or of another role
    (tmp_path / "secrets-of/submitter/farm-admin").write_text("left")
    assert made() == first
    for service, wanted in HOLDERS.items():
        folder = tmp_path / "secrets-of" / service
        held = {file.name: file.read_text().strip() for file in folder.iterdir()}
        assert held == {name: first[name] for name in wanted}, service
    given = made(FARM_REDIS_PASSWORD="my own")
    assert {name for name in first if given[name] != first[name]} == {"farm-admin", "users.acl"}
    assert given["farm-admin"] == "my own"


@pytest.mark.slow
def test_alerts_go_to_one_address_if_there_is_one(set_up, tmp_path):
    """Prometheus learns of an Alertmanager only then: without one it would log errors."""
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    ((pattern,),) = (
        found["files"]
        for one in prometheus["alerting"]["alertmanagers"]
        for found in one["file_sd_configs"]
    )
    assert "/" not in pattern  # Prometheus watches the folder, and says so if it is not there
    address = "https://alerts.example/farm?key=a$b"
    assert set_up(FARM_ALERT_URL=address).returncode == 0
    (targets,) = (tmp_path / "services/prometheus").glob(pattern)
    assert json.loads(targets.read_text()) == [{"targets": ["alertmanager:9093"]}]
    written = tmp_path / "secrets-of/alertmanager/alertmanager.yml"
    settings = yaml.safe_load(written.read_text())
    (receiver,) = settings["receivers"]
    assert settings["route"]["receiver"] == receiver["name"]
    assert [one["url"] for one in receiver["webhook_configs"]] == [address]
    assert set_up().returncode == 0
    assert (targets.exists(), written.exists()) == (False, False)


@pytest.mark.parametrize(
    "wrong",
    [
        "https://a b",
        *(
            pytest.param(wrong, marks=pytest.mark.slow)
            for wrong in ("alerts.example", 'https://x"')
        ),
    ],
)
def test_an_address_for_alerts_that_is_none_is_refused(set_up, wrong):
    """Found, and allowed: it would be seen at the first alert only."""
    done = set_up(FARM_ALERT_URL=wrong)
    assert (done.returncode, "setup: FARM_ALERT_URL: found" in done.stderr) == (2, True)


def test_a_scenario_that_was_not_given_yet_is_asked_for(set_up, tmp_path):
    """With the command that gives it; the containers cannot see this machine's files."""
    done = set_up(FARM_SCENARIO="./mine.yaml")
    assert done.returncode == 2
    assert "FARM_SCENARIO: the farm has no file ./mine.yaml yet" in done.stderr
    assert "run --rm -T setup farm-scenario mine.yaml < mine.yaml" in done.stderr
    (tmp_path / "scenarios/mine.yaml").touch()
    (tmp_path / "app/examples/demo.yaml").touch()
    done = set_up(FARM_SCENARIO="./mine.yaml", FARM_LOAD="examples/demo.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert set_up(FARM_SCENARIO="mine.yaml", FARM_LOAD="none").returncode == 0


def give(folder: Path, name: str, content: str) -> subprocess.CompletedProcess[str]:
    """Give the farm a file, as `docker compose run --rm -T setup farm-scenario` does."""
    text = (ROOT / "deploy/bin/farm-scenario").read_text().replace("/scenarios", str(folder))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", text, "farm-scenario", name],
        env={"PATH": path}, input=content, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_scenario_of_ones_own_is_taken_from_standard_input(tmp_path):
    """Checked, so that a mistake is seen by who makes it; one that is refused replaces nothing."""
    good = (ROOT / "examples/demo.yaml").read_text()
    done = give(tmp_path, "mine.yaml", good)
    assert (done.returncode, done.stderr) == (0, "")
    done = give(tmp_path, "mine.yaml", good.replace("slots: 2", "slots: none", 1))
    assert done.returncode == 2
    assert re.match(r"farm-scenario: mine\.yaml:\d+: ", done.stderr), done.stderr
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"mine.yaml": good}
    assert give(tmp_path, "jobs.csv", "job_id\n").returncode == 0


@pytest.mark.parametrize("name", ["", "../secrets/x", ".hidden", "examples", "a b"])
def test_a_file_is_given_by_a_name_of_its_own(tmp_path, name: str):
    """No way out of the folder, and none over the examples."""
    done = give(tmp_path, name, "name: x\n")
    assert (done.returncode, f"found '{name}'; allowed: " in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
