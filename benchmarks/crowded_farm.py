"""How soon a job is booked while other clients burden the farm as far as they can.

A farm has 20,000 waiting jobs. At once there are four connections that ask for all of them forty
times and read no answers, a flood of questions to the server and to the scheduler, fifty slow HTTP
clients at each process with metrics, and 1,000 connections without a password. Jobs that take no
time are submitted beside them, one after the other, to a free pool; each is booked when its end is
known. The leader must stay, and the server must stay under its limit of memory.

    python -m benchmarks.crowded_farm [--probes 30] [--waiting 20000] [--compose] [--alone]

``--compose``: with a server that has the limits of docker-compose.yml, whose memory limits of the
two processes are compared with their peaks. ``--alone``: without the crowd, to compare.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec
import yaml

from benchmarks.own_farm import up
from farm.app.long_running.farm_place import FarmPlace, targets_of
from farm.core.model import Job, Platform
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import connect
from farm.live.redis.server import choose_server, free_port
from farm_chaos.crowds import flood, metrics_addresses, silent_readers, slow_clients, strangers
from farm_chaos.server_faults import ServerFaults

ROOT = Path(__file__).parents[1]
#: the farm of the waiting jobs, whose two builders never have a free slot, and a free one
SCENARIO = """
name: crowded
pools:
  - {name: full, platform: {processor: arm64}, builders: 2, slots: 1}
  - {name: free, platform: {processor: amd64}, builders: 2, slots: 4}
live: {speed: 1}
"""
#: seconds of a waiting job; of a probe
LONG, SHORT = 36_000.0, 0.001
#: real seconds for the end of a probe; between looks for it, and between two probes
PATIENCE, LOOK_INTERVAL, PAUSE = 90.0, 0.005, 0.2
#: real seconds that the crowd has before the first probe
SETTLE = 2.0


class Crowded(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen."""

    #: real seconds from a submission to the booked end of each probe that was booked in time
    booked: list[float]
    probes: int
    #: one scheduler led from the beginning to the end
    leader_stays: bool
    #: bytes: the most that the server used by its own count, and what it may use
    server_peak: int
    server_limit: int
    #: bytes: the most that processes had in memory, by role
    resident: dict[str, int]


def measure(probes: int, waiting: int, *, compose: bool = False, alone: bool = False) -> Crowded:
    """Burden a farm, and submit probes to it."""
    with contextlib.ExitStack() as stack:
        options = ["--metrics-port", "0"]
        if compose:
            options += ["--redis", stack.enter_context(compose_server())]
        folder, place = stack.enter_context(up(SCENARIO, *options))
        client = stack.enter_context(FarmClient(place.redis_url, place.prefix))
        server = stack.enter_context(contextlib.closing(connect(place.redis_url, "crowded")))
        filler = Job(id="", service_time=LONG, platform=Platform("arm64", True))
        text = {"text": "x" * 300}
        client.submit(
            msgspec.structs.replace(filler, id=f"waiting-{number}", attributes=text)
            for number in range(waiting)
        )
        if why := client.not_read():
            raise SystemExit(why)
        leader = client.leader()
        if not alone:
            stack.enter_context(crowd(folder, place))
        time.sleep(SETTLE)
        times = [book(client, number) for number in range(probes)]
        memory, limit = server.info("memory"), server.config_get("maxmemory")
        leads = client.leader()
        pids = {"server": int(server.info("server")["process_id"])}
        if leads is not None:
            pids["scheduler"] = leads.pid
        return Crowded(
            booked=[time for time in times if time is not None],
            probes=probes,
            leader_stays=leader is not None and leads == leader,
            server_peak=int(memory["used_memory_peak"]),
            server_limit=int(limit["maxmemory"]),
            resident={role: most_resident(pid) for role, pid in pids.items()},
        )


def book(client: FarmClient, number: int) -> float | None:
    """Submit a probe; return when its end was known (real seconds), None: not in time."""
    began, name = time.monotonic(), f"probe-{number}"
    client.submit([Job(id=name, service_time=SHORT, platform=Platform("amd64", True))])
    while not client.known([name]).get(name, False):
        if time.monotonic() - began > PATIENCE:
            return None
        time.sleep(LOOK_INTERVAL)
    taken = time.monotonic() - began
    time.sleep(PAUSE)
    return taken


@contextlib.contextmanager
def crowd(folder: Path, place: FarmPlace) -> Iterator[None]:
    """Have the crowd there, in a process of its own: it must not slow the probes down here."""
    words = [sys.executable, "-m", "benchmarks.crowded_farm", "--crowd", str(folder)]
    words += [place.redis_url, place.prefix]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is not None and process.stdout.readline().strip() != "here":
            raise SystemExit("the crowd did not come about")
        try:
            yield
        finally:
            process.communicate(timeout=PATIENCE)


def be_crowd(folder: Path, url: str, prefix: str) -> None:
    """Burden the farm until standard input ends."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(FarmClient(url, prefix)) for _ in range(2)]
        first, second = (
            stack.enter_context(contextlib.closing(ServerFaults(client))) for client in clients
        )
        stack.callback(strangers(url))
        stack.callback(slow_clients(metrics_addresses(targets_of(folder))))
        stack.callback(silent_readers(url, first.questions))
        stack.callback(flood(first.ask_all, second.ask_scheduler))
        print("here", flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def compose_server() -> Iterator[str]:
    """Run a server with the limits that docker-compose.yml sets; provide its URL."""
    binary = getattr(choose_server(None), "binary", None)
    if binary is None:
        raise SystemExit("no Redis server is installed here")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="farm-compose-") as data:
        words = [*compose_limits(), "--dir", data, "--port", str(port), "--bind", "127.0.0.1"]
        process = subprocess.Popen([str(binary), *words], stdout=subprocess.DEVNULL)
        url = f"redis://127.0.0.1:{port}/0"
        try:
            await_answer(url)
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE)


def compose_limits() -> list[str]:
    """Return the options of Compose's server but for its place and its users."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    words = shlex.split(services["redis"]["command"][-1].replace("$$FARM_REDIS_OPTIONS", ""))
    text = " ".join(shlex.quote(word) for word in words[words.index("redis-server") + 1 :])
    for own in ("--aclfile", "--dir", "--bind", "--protected-mode", "--daemonize"):
        text = re.sub(rf"{own} \S+ ?", "", text)
    return shlex.split(text)


def memory_limits() -> dict[str, int]:
    """Return the bytes that Compose allows the server and the scheduler."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    units = {"m": 1 << 20, "g": 1 << 30}
    limits = {role: services[name]["mem_limit"] for role, name in
              (("server", "redis"), ("scheduler", "scheduler"))}  # fmt: skip
    return {role: int(text[:-1]) * units[text[-1]] for role, text in limits.items()}


def await_answer(url: str) -> None:
    """Return when a server answers; raises SystemExit if it does not."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception), contextlib.closing(connect(url, "crowded")) as client:
            client.ping()
            return
        time.sleep(LOOK_INTERVAL)
    raise SystemExit("the server did not come up")


def most_resident(pid: int) -> int:
    """Return the most bytes that a process had in memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    """Measure, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--probes", type=int, default=30)
    parser.add_argument("--waiting", type=int, default=20_000)
    parser.add_argument("--compose", action="store_true")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--crowd", nargs=3, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.crowd is not None:
        be_crowd(Path(wanted.crowd[0]), *wanted.crowd[1:])
        return
    seen = measure(wanted.probes, wanted.waiting, compose=wanted.compose, alone=wanted.alone)
    times = sorted(seen.booked)
    print(f"{len(times)} of {seen.probes} probes booked; load {os.getloadavg()[0]:.0f}")
    if times:
        print(f"median {median(times):.3f} s, most {times[-1]:.3f} s")
    print(f"the leader {'stays' if seen.leader_stays else 'was deposed'}")
    print(f"server: {seen.server_peak / 1e6:.0f} MB of {seen.server_limit / 1e6:.0f} MB at most")
    allowed = memory_limits() if wanted.compose else {}
    for role, size in seen.resident.items():
        limit = f" of {allowed[role] / 1e6:.0f} MB" if role in allowed else ""
        print(f"{role}: {size / 1e6:.0f} MB{limit} in memory at most")


if __name__ == "__main__":
    main()
