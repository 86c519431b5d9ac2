"""A long-running farm under a steady load: what grows.

Starts ``farm up`` and ``farm submit`` in a temporary folder and samples periodically the memory,
descriptors and threads of each process, the server's keys and bytes, and the sizes of files.
Unbounded growth shows as a slope in the second half; what is bounded (the records of 100,000 ended
jobs) has filled up by then. The event log grows by design, up to twice 512 MB.

    python benchmarks/soak.py [--minutes 60] [--rate 200] [--every 30]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import redis

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


def processes(keeper: int) -> dict[int, str]:
    """Return the roles of a farm's processes, by id: the keeper, and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children[int(parent)].append(int(entry.name))
    found, queue = {keeper: "keeper"}, [keeper]
    while queue:
        for pid in children[queue.pop()]:
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                found[pid] = next((role for part, role in ROLES.items() if part in line), "other")
                queue.append(pid)
    return found


def usage(pid: int) -> dict[str, float]:
    """Return a process's resident memory (MB), descriptors and threads; {} if it has ended."""
    place = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        pages = int((place / "statm").read_text().split()[1])
        return {
            "MB": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
            "files": sum(1 for _ in (place / "fd").iterdir()),
            "threads": sum(1 for _ in (place / "task").iterdir()),
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


def sample(keeper: int, client: redis.Redis, folder: Path) -> dict[str, float]:
    """Return what the processes use, by role, what the server holds, and the sizes of files."""
    sizes: dict[str, float] = defaultdict(float)
    for pid, role in processes(keeper).items():
        for what, value in usage(pid).items():
            sizes[f"{role} {what}"] += value
    sizes["keys"] = client.dbsize()
    sizes["Redis used MB"] = client.info("memory")["used_memory"] / 1e6
    sizes["server's files MB"] = megabytes((folder / "redis").rglob("*"))
    sizes["text logs MB"] = megabytes(folder.glob("*.log"))
    sizes["event log MB"] = megabytes(folder.glob("log/*"))
    return sizes


def main() -> None:
    """Run the farm, sample it, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--every", type=float, default=30.0)
    wanted = parser.parse_args()
    farm = [sys.executable, "-m", "farm"]
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        scenario, seconds = folder / "soak.yaml", wanted.minutes * 60
        scenario.write_text(SCENARIO.format(rate=wanted.rate, seconds=seconds))
        place = ["--dir", str(folder / "farm")]
        subprocess.run([*farm, "up", str(scenario), *place, "--quiet"], check=True, timeout=180)
        load = subprocess.Popen([*farm, "submit", str(scenario), *place, "--quiet"])
        farm_file = json.loads((folder / "farm/farm.json").read_bytes())
        client = redis.Redis.from_url(farm_file["redis_url"])
        series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        began = time.monotonic()
        try:
            while (now := time.monotonic() - began) < seconds:
                for key, value in sample(farm_file["pid"], client, folder / "farm").items():
                    series[key].append((now, value))
                time.sleep(wanted.every)
        finally:
            load.terminate()
            load.wait(60)
            status = subprocess.run(
                [*farm, "status", *place, "--json"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            subprocess.run([*farm, "down", *place, "--now"], check=False, timeout=120)
    print(f"{wanted.minutes:g} minutes at {wanted.rate:g} jobs/s; ended: {status.stdout[:400]}")
    print(f"{'what':<24}{'middle':>10}{'end':>10}{'per hour':>12}")
    for key, samples in series.items():
        middle, end = samples[len(samples) // 2][1], samples[-1][1]
        print(f"{key:<24}{middle:>10.1f}{end:>10.1f}{slope(samples):>12.2f}")


if __name__ == "__main__":
    main()
