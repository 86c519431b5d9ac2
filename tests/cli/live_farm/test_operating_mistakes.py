"""Mistakes while operating a farm: one clear message each, exit code 2, nothing left behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.core.errors import InputError
from farm.terminal.error_messages import with_error_messages
from provisioner.command import app as provisioner
from tests.fixtures.processes import own_port

POOL = """
name: s
pools:
  - {{name: linux, platform: {{processor: amd64}}, provisioner: {{{options}}}}}
workload:
  - arrivals: {{every: 1s, count: 1, service_time: {{constant: 1s}}}}
"""


@pytest.fixture
def says(farm) -> Callable[..., tuple[int, str]]:
    """Run a command; return its exit code and its output, in one line."""

    def run(*words: str, **options: Any) -> tuple[int, str]:
        done = farm(*words, **options)
        return done.code, " ".join(done.err.split())

    return run


def provision() -> None:
    """Run the provisioner's command line, for what is refused before it handles signals."""
    with_error_messages(provisioner)


def provisioner_process(folder: Path, *words: str, **env: str) -> tuple[int, str]:
    """Run it as a process: return its exit code and its output, in one line."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FARM_", "DOCKER_"))}
    done = subprocess.run(
        [sys.executable, "-m", "provisioner", *words],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[3]), "COLUMNS": "300", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join(done.stderr.split())


def scenario(folder: Path, options: str) -> str:
    """Write a scenario whose only pool is provisioned so."""
    (folder / "s.yaml").write_text(POOL.format(options=options))
    return "s.yaml"


@pytest.fixture
def locked_server(tmp_path: Path) -> Iterator[int]:
    """A server that wants the password "right"."""
    from farm.live.redis.connection import connect
    from farm.live.redis.server import EmbeddedServer, choose_server

    with choose_server(None) as server:
        assert isinstance(server, EmbeddedServer)
        client = connect(server.url, "test")
        client.config_set("requirepass", "right")
        client.close()
        yield int(server.url.rsplit(":", 1)[1].split("/")[0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("algorithm: fixed, builders: 1, min: 5, max: 2", "max 2 below min 5"),
        ("algorithm: kedda, max: 2", "did you mean keda?"),
        ("algorithm: keda, max: 2, list_lenght: 3", "did you mean list_length?"),
    ],
)
def test_a_pool_that_cannot_be_provisioned_is_refused_before_anything_starts(
    says, tmp_path, options, said
):
    """By farm up and by the provisioner alike; no farm is left half started."""
    name = scenario(tmp_path, options)
    code, heard = says("up", name)
    assert (code, said in heard) == (2, True), heard
    assert not (tmp_path / ".farm/farm.json").exists()
    code, heard = says(name, command=provision)
    assert (code, said in heard) == (2, True), heard


def _nowhere() -> str:
    return f"redis://127.0.0.1:{own_port()}/0"


@pytest.mark.live
@pytest.mark.parametrize(
    "program",
    ["status", *(pytest.param(name, marks=pytest.mark.slow) for name in ("up", "provisioner"))],
)
def test_a_wrong_password_is_reported_without_showing_it(says, tmp_path, locked_server, program):
    """By operators' commands, by farm up, and by the provisioner."""
    url = f"redis://:wrong@127.0.0.1:{locked_server}/0"
    name = scenario(tmp_path, "algorithm: fixed, builders: 1, max: 1")
    if program == "provisioner":
        code, heard = provisioner_process(tmp_path, name, "--redis", url)
    else:
        code, heard = says(program, *([name] if program == "up" else []), "--redis", url)
    assert code == 2, heard
    assert "refuses us" in heard
    assert "wrong" not in heard.replace("wrong number", "")
    right = url.replace("wrong", "right")
    code, heard = says("status", "--redis", right)
    assert code == 2
    assert "no farm is running" in heard
    assert "or it is still starting" in heard, "as after docker compose up"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["kubernetes"], "no account for the Kubernetes API"),
        (["kubernetes", "--deployment", "Builders_{pool}"], "small letters, digits and hyphens"),
        (["kubernetes", "--kubernetes-api", "k8s:6443"], "--kubernetes-api: found 'k8s:6443'"),
        (["prepared", "--docker-host", "ftp://x"], ""),
        (["docker", "--log-opt", "tag"], "--log-opt: found 'tag'; allowed: KEY=VALUE"),
        (["swarm"], "found 'swarm'; allowed: "),
    ],
)
def test_a_backend_with_wrong_options_is_refused_before_anything_starts(
    says, tmp_path, options, said
):
    """One message, and nothing is contacted (there is no server either)."""
    name = scenario(tmp_path, "algorithm: fixed, builders: 1, max: 1")
    words = [name, "--redis", _nowhere(), "--backend", *options]
    code, heard = says(*words, command=provision)
    assert (code, said in heard) == (2, True), heard
    if options[0] == "prepared":
        assert "--docker-host: found 'ftp://x'" in heard or "needs the docker package" in heard


@pytest.mark.slow
@pytest.mark.live
def test_no_docker_engine_is_one_message(tmp_path, locked_server):
    """At the start (or that the SDK is not installed), not at the first launch."""
    url = f"redis://:right@127.0.0.1:{locked_server}/0"
    name = scenario(tmp_path, "algorithm: fixed, builders: 1, max: 1")
    options, nowhere = ("--redis", url, "--backend", "docker"), f"unix://{tmp_path}/no.sock"
    code, heard = provisioner_process(tmp_path, name, *options, DOCKER_HOST=nowhere)
    assert code == 2
    assert "no Docker Engine answers" in heard or "needs the docker package" in heard


@pytest.mark.parametrize("words", [["up"], ["run", "--quiet"]])
def test_a_port_for_metrics_that_is_taken_is_refused_before_anything_starts(says, tmp_path, words):
    """By the command itself, not in the log of a service."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        name = scenario(tmp_path, "algorithm: fixed, builders: 1, max: 1")
        code, heard = says(*words, name, "--metrics-port", port)
    assert code == 2
    assert f"--metrics-port (FARM_METRICS_PORT): cannot listen on 127.0.0.1:{port}" in heard
    assert not (tmp_path / ".farm/farm.json").exists()


def test_ctrl_c_while_the_command_is_still_being_read():
    """Half a second of imports: no traceback, and the exit code of an interruption."""
    code = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "farm.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from farm.__main__ import main
main()
"""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert 'farm = "farm.__main__:main"' in (root / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        pytest.param(["up", "quickstart"], marks=pytest.mark.slow),
        ["admin", "join", "redis://h"],
    ],
)
def test_an_impossible_url_of_the_server_is_one_message(says, monkeypatch, words):
    """Also where the environment has a password for it, which is not shown."""
    monkeypatch.setenv("FARM_REDIS_URL", "redis://me:secret@[x")
    code, heard = says(*words)
    assert code == 2
    assert "Redis URL 'redis://me:***@[x' cannot be used" in heard


def test_a_sweep_uses_the_password_of_the_environment(farm, monkeypatch):
    """As every command with --redis does."""
    used: list[str] = []

    def play_sweep(*given):
        used.append(given[-1])
        raise InputError("enough seen")

    monkeypatch.setattr("farm.cli.runs.sweep.play_sweep", play_sweep)
    monkeypatch.setenv("FARM_REDIS_PASSWORD", "secret")
    farm("sweep", "quickstart", "--vary", "scheduling.policy=fifo,sjf", "--redis", "redis://me@h")
    assert used == ["redis://me:secret@h"]


STOPPED = ".farm has the jobs of the stopped farm s, which runs at 60; allowed: "


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        ([], "other", f"other: live.speed: found 1, and {STOPPED}another folder (farm --dir DIR"),
        ([], "s", f"s: live.speed: found 1, and {STOPPED}--speed 60, or --fresh, which forgets"),
        (["--speed", "5"], "s", f"--speed: found 5, and {STOPPED}--speed 60, or --fresh"),
    ],
)
def test_up_beside_a_stopped_farm_of_another_speed(
    says, tmp_path: Path, words: list[str], name: str, said: str
):
    """It complained of a --speed that was not given, and named no other folder."""
    stopped = POOL.format(options="algorithm: taskcluster, max: 2")
    (tmp_path / ".farm" / "redis").mkdir(parents=True)
    (tmp_path / ".farm" / "scenario.yaml").write_text(f"{stopped}live: {{speed: 60}}\n")
    (tmp_path / "wanted.yaml").write_text(stopped.replace("name: s\n", f"name: {name}\n"))
    code, told = says("up", "wanted.yaml", *words)
    assert code == 2
    assert f"error: {said}" in told
