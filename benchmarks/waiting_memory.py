"""What waiting jobs cost: memory of the scheduler and of Redis, and time if Redis loses them.

A long-running farm, with a builder that is always busy, gets JOBS jobs; the memory of both
processes is measured before the first and after the last of them. Then the server is emptied, and
the scheduler rewrites the farm.

    python -m benchmarks.waiting_memory [JOBS]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import psutil

from benchmarks.own_farm import up
from farm.core.model import Job, Platform
from farm.live.operating.client import FarmClient
from farm.live.redis.connection import Connection, connect

JOBS = 1_000_000
AMD64 = Platform("amd64", True)
SCENARIO = """
name: waiting
pools: [{name: linux, platform: {processor: amd64}, builders: 1}]
workload: [{arrivals: {every: 1s, count: 1, service_time: 1s}}]
live: {speed: 1}
"""


def jobs(count: int, first: int) -> Iterator[Job]:
    for number in range(first, first + count):
        yield Job(id=f"job-{number:07}", service_time=1e4 + number / 7, platform=AMD64)


def await_waiting(operator: FarmClient, count: int) -> None:
    while operator.status().waiting < count:
        time.sleep(0.5)
    time.sleep(2.0)  # what status and metrics requested has ended


def measure(url: str, prefix: str, count: int) -> None:
    with FarmClient(url, prefix) as operator:
        client = connect(url, "benchmark")
        operator.submit(jobs(1001, first=0))
        await_waiting(operator, 1000)
        leader = operator.leader()
        assert leader is not None
        resident = psutil.Process(leader.pid).memory_info
        before = resident().rss, client.info("memory")["used_memory"]
        operator.submit(jobs(count, first=1001))
        await_waiting(operator, 1000 + count)
        after = resident().rss, client.info("memory")["used_memory"]
        seconds, longest = empty(client, f"{prefix}jobs", 1000 + count)
    for name, first, last in zip(("scheduler", "Redis"), before, after, strict=True):
        print(f"{name:<10}{(last - first) / count:6.0f} bytes for each of {count:,} waiting jobs")
    print(
        f"emptied; written anew within {seconds:.1f} s, the longest pause of Redis {longest:.2f} s"
    )
    print(f"load average {os.getloadavg()[0]:.1f}")


def empty(client: Connection, key: str, count: int) -> tuple[float, float]:
    """Empty the server; return the seconds until the farm is back, and the longest answer time."""
    client.flushall()
    began, longest = time.monotonic(), 0.0
    while client.hlen(key) < count:
        asked = time.monotonic()
        client.ping()
        longest = max(longest, time.monotonic() - asked)
        time.sleep(0.01)
    return time.monotonic() - began, longest


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with up(SCENARIO) as (_, place):
        measure(place.redis_url, place.prefix, count)


if __name__ == "__main__":
    main()
