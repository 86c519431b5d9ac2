"""How late a finished job is booked while very many others are submitted.

A farm of 100 builders runs on its own server; another process submits JOBS jobs of one second at
once. The delay is the age of the oldest report of a batch when that is committed. What the machine
adds is measured beside it: how late the answer is to a process that only sends a PING to the
server, a hundred times a second.

    python -m benchmarks.booking_delay [JOBS]
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from farm.app.api import load_scenario
from farm.core.model import Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.live_options import LiveOptions, Stays
from farm.live.operating.client import FarmClient
from farm.live.operating.control_plane import ControlPlane
from farm.live.redis.connection import connect
from farm.live.redis.server import choose_server
from farm.live.run import Watchers, run_live
from farm.live.world import LiveWorld
from farm.metrics.series import Labels, Series

JOBS = 1_000_000
BUILDERS = 100
#: real seconds after which the measurement ends, whether all jobs were read or not
LIMIT = 300.0
AMD64 = Platform("amd64", True)


class Delays(Series):
    """Keeps the delays from the live world's measurements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def set(self, name: str, values: Mapping[Labels, float]) -> None:
        if name == "farm_scheduler_event_lag_seconds" and values[()] > 0:
            self.found.append(values[()])


class Flood:
    """Submits the jobs when the builders have joined, and ends the farm when all jobs were read."""

    def __init__(self, scheduler: Scheduler, url: str, jobs: int, delays: Delays) -> None:
        self._scheduler, self._url, self._jobs, self._delays = scheduler, url, jobs, delays
        self._control: ControlPlane
        self._sender: subprocess.Popen[bytes] | None = None
        self._pinger: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        #: seconds from each PING that was due to its answer
        self.pings: list[float] = []

    def around(self, world: LiveWorld) -> LiveWorld:
        scenario = load_scenario("mm1")
        self._control = ControlPlane(world, self._scheduler, scenario, long_lived=True)
        return world

    def tick(self, world: LiveWorld) -> float:
        due = self._control.turn()
        if self._sender is None and len(world.protocol.roster.host_of) == BUILDERS:
            self._delays.found.clear()
            self._began = time.monotonic()
            again = [sys.executable, __file__]
            self._pinger = subprocess.Popen([*again, "ping", self._url], stdin=PIPE, stdout=PIPE)
            self._sender = subprocess.Popen([*again, str(self._jobs), self._url])
        if self._sender is None or self._pinger is None or world.stopping:
            return due
        taken = time.monotonic() - self._began
        if world.protocol.submissions.accepted >= self._jobs or taken > LIMIT:
            print(f"{world.protocol.submissions.accepted:,} jobs read within {taken:.0f} s")
            world.stop()
            self._sender.wait()
            self.pings = json.loads(self._pinger.communicate(b"enough")[0])
        return due


def submit(jobs: int, url: str) -> None:
    with FarmClient(url) as operator:
        operator.submit(Job(id=f"{n}", service_time=1.0, platform=AMD64) for n in range(jobs))


def ping(url: str) -> list[float]:
    """Return how late each answer was, until something is on the standard input."""
    client, late = connect(url, "benchmark"), list[float]()
    due = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        client.ping()
        late.append(time.monotonic() - due)
        due = max(due + 0.01, time.monotonic())
    return late


def show(what: str, delays: Iterable[float]) -> None:
    found = sorted(delays)
    marks = [found[min(len(found) - 1, int(share * len(found)))] for share in (0.5, 0.9, 0.99, 1)]
    shown = " / ".join(f"{1000 * mark:.1f}" for mark in marks)
    print(f"{what:<10} p50 / p90 / p99 / most of {len(found):,}: {shown} ms")


def measure(jobs: int) -> None:
    pools = [PoolSpec(name="linux", processors=("amd64",), builders=BUILDERS)]
    scheduler = Scheduler(SchedulingRules(), make_estimator("oracle"), pools)
    delays = Delays()
    with TemporaryDirectory() as folder, choose_server(None) as server:
        flood = Flood(scheduler, server.url, jobs, delays)
        stays = Stays(restore=lambda *_: None, rules="")
        options = LiveOptions(redis_url=server.url, log_folder=Path(folder), hosts=1, stays=stays)
        watchers = Watchers(
            observe=lambda *_: None, on_tick=flood.tick, meter=delays, around=flood.around
        )
        run_live(scheduler, pools, None, options, watchers)
    show("booked", delays.found)
    show("PING", flood.pings)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ping"]:
        print(json.dumps(ping(sys.argv[2])))
    elif len(sys.argv) > 2:
        submit(int(sys.argv[1]), sys.argv[2])
    else:
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)
