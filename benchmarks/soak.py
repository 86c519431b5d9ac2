"""A long-running farm under a steady load: what grows.

Starts ``farm up`` and ``farm submit`` in a temporary folder and samples periodically the memory,
descriptors and threads of each process, the server's keys and bytes, and the sizes of files.
Unbounded growth shows as a slope in the second half; what is bounded (the records of 100,000 ended
jobs) has filled up by then. The event log grows by design, up to twice 512 MB.
With ``--audit`` the jobs end, the farm goes down, and its event log is checked and replayed; beyond
512 MB it has lost its beginning, and cannot be.

    python -m benchmarks.soak [--minutes 60] [--rate 200] [--every 30] [--audit]
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from os import getloadavg
from pathlib import Path

import numpy as np
import psutil
import redis

from benchmarks.own_farm import farm, up

SCENARIO = """
name: soak
pools: [{{name: linux, platform: {{processor: amd64}}, builders: 50, slots: 4}}]
workload:
  - arrivals: {{poisson: {{rate: {rate}/s}}, service_time: {{exponential: {{mean: 500ms}}}}}}
phases: {{run: {seconds}s}}
live: {{speed: 1}}
"""
#: how the processes of a farm are recognised, by a part of their command line
ROLES = {
    "farm admin scheduler": "schedulers",
    "provisioner": "provisioner",
    "workers.app": "builder host",
    "aof-rewrite": "server's child",
    "redis-server": "server",
    "valkey": "server",
}


def processes(keeper: psutil.Process) -> dict[psutil.Process, str]:
    """Return the roles of a farm's processes: the keeper, and all its descendants."""
    found = {keeper: "keeper"}
    for one in keeper.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(one.cmdline())
            found[one] = next((role for part, role in ROLES.items() if part in line), "other")
    return found


def usage(process: psutil.Process) -> dict[str, float]:
    """Return a process's resident memory (MB), descriptors and threads; {} if it has ended."""
    with contextlib.suppress(psutil.Error):
        return {
            "MB": process.memory_info().rss / 1e6,
            "files": process.num_fds(),
            "threads": process.num_threads(),
        }
    return {}


def megabytes(paths: Iterable[Path]) -> float:
    """Return the size of these files together."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total / 1e6


def slope(samples: list[tuple[float, float]]) -> float:
    """Return the growth per hour in the second half of the samples."""
    later = samples[len(samples) // 2 :]
    times, values = (np.array(column) for column in zip(*later, strict=True))
    return float(np.polyfit(times / 3600, values, 1)[0])


def sample(keeper: psutil.Process, client: redis.Redis, folder: Path) -> dict[str, float]:
    """Return what the processes use, by role, what the server holds, and the sizes of files."""
    sizes: dict[str, float] = defaultdict(float)
    for process, role in processes(keeper).items():
        for what, value in usage(process).items():
            sizes[f"{role} {what}"] += value
    sizes["keys"] = client.dbsize()
    sizes["Redis used MB"] = client.info("memory")["used_memory"] / 1e6
    sizes["server's files MB"] = megabytes((folder / "redis").rglob("*"))
    sizes["text logs MB"] = megabytes(folder.glob("*.log"))
    sizes["event log MB"] = megabytes(folder.glob("log/*"))
    return sizes


def audit(folder: Path) -> str:
    """Return what an audit says of the event log of a farm, which goes down for it."""
    farm("down", "--dir", folder)
    return farm("admin", "audit", folder / "log", allowed=(0, 1, 2)).strip() or "unsound"


def main() -> None:
    """Run the farm, sample it, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--every", type=float, default=30.0)
    parser.add_argument("--audit", action="store_true")
    wanted = parser.parse_args()
    seconds = wanted.minutes * 60
    with up(SCENARIO.format(rate=wanted.rate, seconds=seconds)) as (folder, place):
        words = ["submit", str(folder.parent / "scenario.yaml"), "--dir", str(folder), "--quiet"]
        load = subprocess.Popen([sys.executable, "-m", "farm", *words])
        client, keeper = redis.Redis.from_url(place.redis_url), psutil.Process(place.pid)
        series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        began = time.monotonic()
        try:
            while (now := time.monotonic() - began) < seconds:
                for key, value in sample(keeper, client, folder).items():
                    series[key].append((now, value))
                time.sleep(wanted.every)
        finally:
            load.terminate()
            load.wait(60)
        status = farm("status", "--dir", folder, "--json")
        verdict = audit(folder) if wanted.audit else "not asked for"
    print(f"{wanted.minutes:g} minutes at {wanted.rate:g} jobs/s; ended: {status[:400]}")
    print(f"audit: {verdict}; load {getloadavg()[0]:.0f} at the end")
    print(f"{'what':<24}{'middle':>10}{'end':>10}{'per hour':>12}")
    for key, samples in series.items():
        middle, end = samples[len(samples) // 2][1], samples[-1][1]
        print(f"{key:<24}{middle:>10.1f}{end:>10.1f}{slope(samples):>12.2f}")


if __name__ == "__main__":
    main()
