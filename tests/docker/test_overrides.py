"""What deploy/*.yml and the profile alerts add to docker-compose.yml, on a real Engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.conftest import Farms
from tests.fixtures.docker_engine import BASE, Compose
from tests.fixtures.processes import own_port
from tests.worlds.composed import Composed

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

COLLECTOR = """
import re, socketserver
class Take(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            print(re.sub(rb"[^ -~]+", b" ", data).decode())
socketserver.ThreadingTCPServer(("", 24224), Take).serve_forever()
"""
#: stands in for the collector: takes what the Engine sends and prints the text in it
NO_COLLECTOR = {"image": BASE, "entrypoint": ["python3", "-uc"], "command": [COLLECTOR]}

RECEIVER = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Take(BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(200)
        self.end_headers()
HTTPServer(("", 8080), Take).serve_forever()
"""


@pytest.fixture
def reachable(farms: Farms, oldest: Compose) -> Composed:
    """A farm whose server is published, without builders and pages."""
    farm = farms(oldest, FARM_REMOTE_PORT=str(own_port()))
    farm.files.append("deploy/remote.yml")
    farm.compose("up", "-d", "scheduler", timeout=800)
    return farm


def handed_out(farm: Composed, folder: Path) -> None:
    """Copy what a client needs, as the page on containers says."""
    command = "run --rm -T setup tar -c -C /tls ca.crt -C /secrets farm-submitter farm-builder"
    done = subprocess.run(
        farm.command(*command.split()), env=farm.environment, cwd=farm.source,
        stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    subprocess.run(["tar", "-x", "-C", folder], input=done.stdout, check=True)


def outside(
    farm: Composed, folder: Path, host: str, *words: str, scheme: str = "rediss"
) -> subprocess.CompletedProcess[str]:
    """Run a command of the farm on this machine, as the user farm-submitter."""
    place = f"{host}:{farm.environment['FARM_REMOTE_PORT']}/0"
    authority = f"?ssl_ca_certs={folder}/ca.crt" if scheme == "rediss" else ""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return subprocess.run(
        [sys.executable, "-m", "farm", *words],
        env=ours | {
            "FARM_REDIS_URL": f"{scheme}://farm-submitter@{place}{authority}",
            "FARM_REDIS_PASSWORD_FILE": str(folder / "farm-submitter"),
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_commands_outside_reach_the_server_by_tls(reachable: Composed, tmp_path: Path):
    """As a role, with the certificate that was made; not without TLS, nor beyond the role."""
    farm = reachable
    handed_out(farm, tmp_path)
    words = ("submit", "--id", "one", "--service-time", "5m", "--platform", "amd64/virtual")
    done = outside(farm, tmp_path, "localhost", *words)
    assert done.returncode == 0, done.stderr
    farm.until(lambda: farm.status()["submitted"] == 1, "the submission")
    done = outside(farm, tmp_path, "127.0.0.1", "jobs", "--json")
    assert (done.returncode, '"one"' in done.stdout) == (0, True), done.stderr
    done = outside(farm, tmp_path, "localhost", "cancel", "one")
    assert (done.returncode, "no permissions" in done.stderr) == (2, True), done.stderr
    done = outside(farm, tmp_path, "localhost", "status", scheme="redis")
    assert (done.returncode, "cannot be reached" in done.stderr) == (2, True), done.stderr


def test_a_server_with_another_name_gets_another_certificate(reachable: Composed, tmp_path: Path):
    """At the next `up`; under its old name it is then refused, with the reason."""
    farm = reachable
    farm.environment["FARM_TLS_NAMES"] = "127.0.0.1"
    farm.compose("up", "-d", "scheduler")
    farm.compose("restart", "redis")
    handed_out(farm, tmp_path)
    farm.until(lambda: outside(farm, tmp_path, "127.0.0.1", "status").returncode == 0, "its start")
    done = outside(farm, tmp_path, "localhost", "status")
    assert (done.returncode, "localhost" in done.stderr) == (2, True), done.stderr
    assert "certificate" in done.stderr


def test_what_a_builder_said_outlives_it(farms: Farms, newest: Compose):
    """The Engine sends it to the collector, from a container that is then removed."""
    farm = farms(newest, FARM_LOGS_PORT=str(own_port()))
    farm.files.append("deploy/logs.yml")
    farm.override(logs=NO_COLLECTOR)
    farm.compose("up", "-d", "--build", "logs", "provisioner", timeout=800)
    farm.farm("submit", "--quiet", "--service-time", "10h", "--platform", "amd64/virtual")
    farm.until(lambda: farm.status()["running"] == 1, "a builder at work")
    name = farm.builders()[0]
    farm.engine.docker("stop", name)
    farm.until(lambda: name not in farm.builders(everything=True), "its removal")
    farm.until(lambda: "Warm shutdown" in farm.log("logs"), "its last words")
    assert name in farm.log("logs")


def test_an_alert_reaches_its_receiver(farms: Farms, newest: Compose):
    """Of a farm whose scheduler is gone; the address is given in the environment."""
    farm = farms(newest, FARM_ALERT_URL="http://receiver:8080/farm")
    command = {"entrypoint": ["python3", "-uc"], "command": [RECEIVER]}
    farm.override(receiver={"image": BASE, "init": True, "networks": ["farm"], **command})
    services = ("redis", "scheduler", "prometheus", "alertmanager", "receiver")
    farm.compose("--profile", "alerts", "up", "-d", *services, timeout=800)
    farm.until(lambda: farm.ask("farm_scheduler_leader == 1"), "the scheduler's metrics")
    farm.compose("stop", "scheduler")
    farm.until(lambda: "FarmSchedulerDown" in farm.log("receiver"), "the alert", 180)
