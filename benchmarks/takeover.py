"""How long a farm is without a scheduler after the active one is killed.

Two schedulers, one on standby: on the same machine (it sees that the other one's process is
dead), and in a separate process namespace, as on another machine (it only sees that the lease
expires). Measured from SIGKILL to the first commit of the successor.

    python -m benchmarks.takeover [--kills 10]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from farm.live.redis.connection import Connection, connect
from farm.live.redis.keys import Keys
from farm.live.redis.server import choose_server

SCENARIO = """
name: takeover
pools: [{name: linux, platform: {processor: amd64}, builders: 10, slots: 4}]
workload: [{arrivals: {every: 1s, count: 1, service_time: 1s}}]
live: {speed: 1}
"""
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child")
#: real seconds for a scheduler to stand by
COMING_UP = 120.0


class Schedulers:
    """Two of them on one server, restarted when killed."""

    def __init__(self, url: str, scenario: Path, log: Path, within: tuple[str, ...]) -> None:
        self._command = [*within, sys.executable, "-m", "farm", "admin", "scheduler", str(scenario)]
        self._environment = os.environ | {"FARM_REDIS_URL": url}
        self._log = log
        self._client: Connection = connect(url, "benchmark")
        self._keys = Keys()

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        with self._log.open("ab") as sink:
            process = subprocess.Popen(self._command, env=self._environment, stderr=sink)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def epoch(self) -> int:
        """Return how many schedulers have taken over."""
        return int(self._client.hget(self._keys.fence, "epoch") or 0)

    def commits(self) -> int:
        return int(self._client.hget(self._keys.fence, "commits") or 0)

    def takeover(self) -> float:
        """Kill the active one; return the seconds until the other one commits."""
        with contextlib.ExitStack() as stack:
            epoch = self.epoch()
            first = stack.enter_context(self.running())
            await_that(lambda: self.epoch() > epoch and self.commits() > 0)
            # the first may have been on standby, too: for one that was killed before
            words = self._said()
            stack.enter_context(self.running())
            await_that(lambda: self._said() > words)
            time.sleep(0.1 * (time.monotonic_ns() % 10))  # at a random phase of the lease
            commits, began = self.commits(), time.monotonic()
            first.kill()
            await_that(lambda: self.epoch() > epoch + 1 and self.commits() > commits)
            return time.monotonic() - began

    def _said(self) -> int:
        return self._log.read_bytes().count(b"standing by") if self._log.exists() else 0


def await_that(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + COMING_UP
    while not there():
        if time.monotonic() > deadline:
            raise SystemExit("that did not happen in time")
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    kills = parser.parse_args().kills
    for where, within in (("here", ()), ("elsewhere", ELSEWHERE)):
        with tempfile.TemporaryDirectory() as name, choose_server(None) as server:
            scenario = Path(name) / "takeover.yaml"
            scenario.write_text(SCENARIO)
            schedulers = Schedulers(server.url, scenario, Path(name) / "log", within)
            times = [schedulers.takeover() for _ in range(kills)]
        print(
            f"standby {where:<10} {kills} kills: median {statistics.median(times):.2f} s, "
            f"longest {max(times):.2f} s (load {os.getloadavg()[0]:.1f})"
        )


if __name__ == "__main__":
    main()
