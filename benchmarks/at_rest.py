"""What a farm costs that has nothing to do: processor time and wake-ups of all its processes.

``farm up`` with N builders, and a while later, for a minute: user and system time, and voluntary
context switches of every thread (a thread that is woken goes back to sleep by one). Both mean the
same on a busy machine. Then jobs of no length are submitted, one a second: how soon each has ended.

    python benchmarks/at_rest.py [--builders 100,1000] [--seconds 60] [--jobs 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from farm.app.long_running.farm_place import reach, read_place
from farm.core.model import Job

SCENARIO = """
name: at-rest
pools: [{{name: linux, platform: {{processor: amd64}}, builders: {builders}}}]
workload: [{{arrivals: {{every: 1d, count: 1, service_time: 1s}}}}]
live: {{speed: 1}}
"""
#: real seconds after which nothing is left of the start
SETTLE = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Of one process up to now: processor seconds, voluntary context switches of its threads."""

    cpu: float = 0.0
    wakeups: int = 0

    def since(self, before: Cost) -> Cost:
        return Cost(self.cpu - before.cpu, self.wakeups - before.wakeups)


def cost_of(pid: int) -> Cost:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        switches += int(next(line for line in lines if line.startswith("voluntary")).split()[1])
    return Cost((int(fields[11]) + int(fields[12])) / TICKS, switches)


def tree(root: int) -> Iterator[int]:
    """Yield a process and all that descend from it."""
    yield root
    for task in Path(f"/proc/{root}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from tree(int(child))


def name_of(pid: int, root: int) -> str:
    """Return what a process of the farm is, and its id."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    known = {"celery": "host", "provisioner": "provisioner", "scheduler": "scheduler"}
    found = next((role for word, role in known.items() if word in words), "server")
    return f"{'keeper' if pid == root else found} {pid}"


def farm(*words: str) -> None:
    command = [sys.executable, "-m", "farm", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(root: int, seconds: float) -> None:
    pids = list(tree(root))
    before = {pid: cost_of(pid) for pid in pids}
    time.sleep(seconds)
    spent = {name_of(pid, root): cost_of(pid).since(before[pid]) for pid in pids}
    total = Cost(*(sum(values) for values in zip(*spent.values(), strict=True)))
    for name, cost in {**spent, "all": total}.items():
        cpu, wakeups = cost.cpu * 60 / seconds, cost.wakeups / seconds
        print(f"  {name:18} {cpu:5.2f} s {wakeups:6.1f} wake-ups a second")


def delays(folder: Path, jobs: int) -> list[float]:
    """Return how long it takes, in real seconds, from before a submission to the job's end."""
    found = []
    with reach(None, folder) as client:
        for number in range(jobs):
            time.sleep(1.0)
            job = Job(id=f"job-{number}", service_time=0.0)
            began = time.monotonic()
            client.submit([job])
            while not client.known([job.id]).get(job.id):
                time.sleep(0.001)
            found.append(time.monotonic() - began)
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--builders", default="100,1000")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=10)
    wanted = parser.parse_args()
    for builders in map(int, wanted.builders.split(",")):
        with tempfile.TemporaryDirectory(prefix="farm-rest-") as name:
            folder, scenario = Path(name) / "farm", Path(name) / "rest.yaml"
            scenario.write_text(SCENARIO.format(builders=builders))
            farm("up", str(scenario), "--dir", str(folder), "--quiet")
            try:
                place = read_place(folder)
                if place is None:
                    raise SystemExit("the farm is gone")
                time.sleep(SETTLE)
                print(f"{builders} builders, a minute (load {os.getloadavg()[0]:.1f}):")
                measure(place.pid, wanted.seconds)
                if found := delays(folder, wanted.jobs):
                    told = f"{1e3 * statistics.median(found):.0f}, at most {1e3 * found[-1]:.0f}"
                    print(f"  a job is submitted, dispatched and ended, ms: {told}")
            finally:
                farm("down", "--now", "--dir", str(folder))


if __name__ == "__main__":
    main()
