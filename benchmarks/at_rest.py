"""What a farm costs that has nothing to do: processor time and wake-ups of all its processes.

``farm up`` with N builders, and a while later, for a minute: user and system time, and voluntary
context switches of every thread (a thread that is woken goes back to sleep by one). Both mean the
same on a busy machine. Then jobs of no length are submitted, one a second: how soon each has ended.

    python -m benchmarks.at_rest [--builders 100,1000] [--seconds 60] [--jobs 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.own_farm import up
from farm.app.long_running.farm_place import reach
from farm.core.model import Job

SCENARIO = """
name: at-rest
pools: [{{name: linux, platform: {{processor: amd64}}, builders: {builders}}}]
workload: [{{arrivals: {{every: 1d, count: 1, service_time: 1s}}}}]
live: {{speed: 1}}
"""
#: real seconds after which nothing is left of the start
SETTLE = 20.0


class Cost(NamedTuple):
    """Of one process up to now: processor seconds, voluntary context switches of its threads."""

    cpu: float = 0.0
    wakeups: int = 0

    def since(self, before: Cost) -> Cost:
        return Cost(self.cpu - before.cpu, self.wakeups - before.wakeups)


def cost_of(process: psutil.Process) -> Cost:
    times, switches = process.cpu_times(), 0
    for thread in process.threads():
        lines = Path(f"/proc/{process.pid}/task/{thread.id}/status").read_text().splitlines()
        switches += int(next(line for line in lines if line.startswith("voluntary")).split()[1])
    return Cost(times.user + times.system, switches)


def name_of(process: psutil.Process, root: int) -> str:
    """Return what a process of the farm is, and its id."""
    known = {"celery": "host", "provisioner": "provisioner", "scheduler": "scheduler"}
    words = process.cmdline()
    found = next((role for word, role in known.items() if word in words), "server")
    return f"{'keeper' if process.pid == root else found} {process.pid}"


def measure(root: int, seconds: float) -> None:
    keeper = psutil.Process(root)
    processes = [keeper, *keeper.children(recursive=True)]
    before = [cost_of(one) for one in processes]
    time.sleep(seconds)
    spent = {
        name_of(one, root): cost_of(one).since(first)
        for one, first in zip(processes, before, strict=True)
    }
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
        with up(SCENARIO.format(builders=builders)) as (folder, place):
            time.sleep(SETTLE)
            print(f"{builders} builders, a minute (load {os.getloadavg()[0]:.1f}):")
            measure(place.pid, wanted.seconds)
            if found := delays(folder, wanted.jobs):
                told = f"{1e3 * statistics.median(found):.0f}, at most {1e3 * found[-1]:.0f}"
                print(f"  a job is submitted, dispatched and ended, ms: {told}")


if __name__ == "__main__":
    main()
