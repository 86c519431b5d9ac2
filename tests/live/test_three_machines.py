"""A farm of three machines, by TLS, of which one is unplugged for a minute."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from farm.app.recorded.auditing import audit_run
from farm.core.commands import EndJob
from farm.live.redis.server import EmbeddedServer, choose_server
from farm.results.run_directory import load_run
from tests.fixtures import processes
from tests.fixtures.processes import until
from tests.fixtures.tls import TLS_ONLY, certificates, needs_tls

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(600)]

SCENARIO = """
name: three-machines
pools:
  - {name: linux, platform: {processor: amd64},
     provisioner: {algorithm: taskcluster, min: 1, max: 4, interval: 5s}}
workload:
  - arrivals: {every: 1s, count: 1, service_time: {constant: 1s}}
live: {speed: 10}
"""
JOBS, UNPLUGGED = 160, 60.0
FARM = f"{shlex.quote(sys.executable)} -m farm"


class Machine:
    """One of them; its processes see only the others, and its own loopback."""

    def __init__(self, name: str, switch: str, address: str, folder: Path) -> None:
        self.name = name
        self.address = address
        self.folder = folder
        self._space = f"{switch}-{name}"
        self._switch = switch
        self._running = contextlib.ExitStack()
        _ip("netns", "add", self._space)
        _ip("-n", self._space, "link", "set", "lo", "up")
        ends = ("link", "add", "up0", "netns", self._space, "type", "veth")
        _ip(*ends, "peer", "name", name, "netns", switch)
        _ip("-n", switch, "link", "set", name, "master", "switch", "up")
        _ip("-n", self._space, "address", "add", f"{address}/24", "dev", "up0")
        _ip("-n", self._space, "link", "set", "up0", "up")

    def plug(self, state: str) -> None:
        """Unplug its cable at the switch (``down``), or plug it in (``up``)."""
        _ip("-n", self._switch, "link", "set", self.name, state)

    def command(self, line: str) -> list[str]:
        """Return the command line that runs a shell command there."""
        return ["ip", "netns", "exec", self._space, "sh", "-c", f"exec env {line}"]

    def start(self, what: str, line: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process there; its log is WHAT.log."""
        started = processes.running(self.command(line), self.folder, f"{what}.log", **environment)
        return self._running.enter_context(started)

    def call(self, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end there, ignoring failures."""
        return subprocess.run(
            self.command(line),
            cwd=self.folder,
            env=processes.environment(**environment),
            capture_output=True,
            text=True,
            timeout=120,
        )

    def run(self, line: str, **environment: str) -> str:
        """Run a command to its end there; return its output."""
        done = self.call(line, **environment)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        """End its processes, last started first, and remove it."""
        self._running.close()
        _ip("netns", "delete", self._space)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@contextlib.contextmanager
def machines(folder: Path, *names: str) -> Iterator[list[Machine]]:
    """Yield machines of these names on their own switch; skip (in CI: fail) without root."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        in_ci = os.environ.get("FARM_CI") or os.environ.get("CI")
        (pytest.fail if in_ci else pytest.skip)("needs root, and ip (iproute2)")
    switch = f"farm{os.getpid()}"
    with contextlib.ExitStack() as stack:
        _ip("netns", "add", switch)
        stack.callback(_ip, "netns", "delete", switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        found: list[Machine] = []
        for number, name in enumerate(names, 1):
            found.append(Machine(name, switch, f"10.77.0.{number}", folder))
            stack.callback(found[-1].close)
        yield found


class ThreeMachines:
    """The farm's own, ``head``, and two that joined, each with room for two builders."""

    def __init__(self, head: Machine, *racks: Machine) -> None:
        self.head = head
        self.racks = racks
        self.server = f"rediss://{head.address}:6380/0?ssl_ca_certs={head.folder}/ca.crt"

    def start(self, redis_server: Path) -> None:
        """Start everything as docs/how-to/containers.md says."""
        head = self.head
        (head.folder / "farm.yaml").write_text(SCENARIO)
        users = head.run(f"{FARM} acl --quiet --aclfile --passwords secrets")
        (head.folder / "users.acl").write_text(users)
        tls = shlex.join([*TLS_ONLY, "--tls-port", "6380", "--bind", head.address])
        head.start("redis", f"{redis_server} {tls} --aclfile users.acl --save ''")
        until(lambda: "eady to accept" in self.log("redis"), "the server")
        scheduler = f"{FARM} scheduler farm.yaml --log run"
        self.scheduler = head.start("scheduler", scheduler, **self.as_role("scheduler"))
        looks = self.as_role("reader")
        until(lambda: head.call(f"{FARM} status", **looks).returncode == 0, "the scheduler")
        # one process for all looks: a command of its own costs each most of a second
        head.start("status", f"{FARM} status --watch --json", **looks)
        provisioner = f"{sys.executable} -m provisioner farm.yaml --backend joined"
        head.start("provisioner", provisioner, **self.as_role("provisioner"))
        hosts = shlex.join(word for rack in self.racks for word in ("--host", rack.name))
        printed = head.run(
            f"{FARM} join {shlex.quote(self.server)} {hosts} --room 2 --passwords secrets",
            **self.as_role("admin"),
        )
        path = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
        for rack, line in zip(self.racks, printed.splitlines(), strict=True):
            rack.start(rack.name, f"{path} {line}")

    def as_role(self, role: str) -> dict[str, str]:
        """Return the environment of a service of this user, whose password is in a file."""
        user = f"farm-{role}"
        url = self.server.replace("//", f"//{user}@", 1)
        return {"FARM_REDIS_URL": url, "FARM_REDIS_PASSWORD_FILE": f"secrets/{user}"}

    def farm(self, role: str, words: str) -> str:
        """Run a command of the farm as this user."""
        return self.head.run(f"{FARM} {words}", **self.as_role(role))

    def ended(self) -> Counter[str]:
        """Return how many jobs ended, by state."""
        return Counter(self._status()["ended"])

    def at_work(self) -> tuple[int, int]:
        """Return the numbers of machines and of their builders."""
        status = self._status()
        return status["hosts"], sum(status["builders"].get(s, 0) for s in ("idle", "building"))

    def _status(self) -> dict:
        until(lambda: "\n" in self.log("status"), "a status")
        return msgspec.json.decode(self.log("status").rpartition("\n")[0].splitlines()[-1])

    def log(self, what: str) -> str:
        """Return a process's log."""
        return (self.head.folder / f"{what}.log").read_text()


@pytest.fixture
def farm(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[ThreeMachines]:
    """A running farm."""
    server = choose_server(None)
    assert isinstance(server, EmbeddedServer)
    openssl = tool("openssl")
    needs_tls(server.binary, openssl)
    with machines(tmp_path, "head", "rack1", "rack2") as found:
        made = ThreeMachines(*found)
        certificates(tmp_path, openssl, f"IP:{made.head.address}")
        made.start(server.binary)
        yield made


def test_a_machine_that_is_unplugged_for_a_minute_costs_no_job(farm: ThreeMachines):
    """The others continue, its jobs run elsewhere, it comes back; each job runs to its end once."""
    farm.farm("submitter", f"submit --quiet --service-time 20s --count {JOBS}")
    until(lambda: farm.at_work() == (2, 4), "builders on both machines", 120)
    until(lambda: farm.ended()["succeeded"] >= 10, "the first ends")
    rack = farm.racks[1]
    rack.plug("down")
    back_at = time.monotonic() + UNPLUGGED
    until(lambda: farm.at_work() == (1, 2), "its builders' loss")
    before = farm.ended()["succeeded"]
    until(lambda: farm.ended()["succeeded"] >= before + 10, "work of the other one")
    until(lambda: time.monotonic() >= back_at, "the minute's end", UNPLUGGED)
    assert sum(farm.ended().values()) < JOBS - 20, "there is work left for it"
    rack.plug("up")
    until(lambda: farm.at_work() == (2, 4), "its return", 120)
    until(lambda: sum(farm.ended().values()) == JOBS, "the end of all jobs", 240)
    assert farm.ended() == {"succeeded": JOBS}

    farm.scheduler.terminate()
    assert farm.scheduler.wait(30) == 0
    run = farm.head.folder / "run"
    assert audit_run(run).wrong == ""
    entries = load_run(run, unfinished=True).entries()
    ends = [one.job.id for each in entries for one in each.commands if isinstance(one, EndJob)]
    assert len(ends) == len(set(ends)) == JOBS
    for name in ("redis", "scheduler", "provisioner", "rack1", "rack2"):
        for secret in (farm.head.folder / "secrets").iterdir():
            assert secret.read_text().strip() not in farm.log(name)
