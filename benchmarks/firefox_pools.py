"""A week of Firefox CI's recorded pools: this farm beside the Taskcluster provisioning simulator.

Both play the original's sim ``firefox`` (an estimate every second, up to 1000 builders) on the
traces that come with it, in turns, so that the ratios hold on a noisy machine; CPU time of the
simulation alone is measured, without reading, recording to disk and summaries. The original is not
part of this project (MPL-2.0, Node). To compare with it:

    git clone https://github.com/taskcluster/taskcluster-provisioning-simulator original
    (cd original && npm install --ignore-scripts chalk@4 priorityqueuejs@2 slugid@2)
    python benchmarks/firefox_pools.py original [--rounds N] [POOL ...]

Without it (``-`` in its place, with ``--traces``) only the farm is measured.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from farm.results.summary.records import Recorder
from farm.scenario import Scenario, parse_scenario
from farm.sim.simulation import Simulation
from provisioner.from_scenario import algorithms_of

POOLS = (
    "mobile-3-decision",
    "mobile-3-b-linux-large",
    "gecko-t-t-win10-64",
    "gecko-3-b-linux",
    "gecko-t-t-linux-large",
)
#: run by Node in the original's folder: prints CPU seconds and the tasks that it resolved
ORIGINAL = """
const {Simulator} = require(process.cwd() + '/sims/firefox');
const made = new Simulator({logging: false, commandOptions: {workerPoolId: process.argv[1]}});
const before = process.cpuUsage();
made.run();
const spent = process.cpuUsage(before);
console.log((spent.user + spent.system) / 1e6);
"""


def scenario(trace: Path) -> Scenario:
    """Return the original's sim ``firefox``; its builders' failures are drawn without a seed."""
    pool = {
        "name": "firefox",
        "platform": {"processor": "amd64"},
        "boot_time": "20s",
        "idle_timeout": "15m",
        "provisioner": {"algorithm": "taskcluster", "compatibility": "taskcluster", "max": 1000},
    }
    return parse_scenario(
        {
            "phases": {"ramp_up": "1d", "run": "5d", "ramp_down": "1d"},
            "pools": [pool],
            "workload": [{"trace": {"path": str(trace)}}],
            "scheduling": {"compatibility": "taskcluster"},
        }
    )


def farm_seconds(trace: Path) -> float:
    """Return the CPU seconds of one simulation on the farm, jobs made and records kept."""
    wanted = scenario(trace)
    simulation = Simulation(wanted, algorithms=algorithms_of(wanted))
    began = time.process_time()
    simulation.play([Recorder()])
    return time.process_time() - began


def original_seconds(folder: Path, pool: str) -> float:
    """Return the CPU seconds of one run of the original's simulator."""
    told = subprocess.run(
        ["node", "-e", ORIGINAL, pool], cwd=folder, check=True, capture_output=True, text=True
    )
    return float(told.stdout.split()[-1])


def main() -> None:
    """Take turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("original", help="a clone of the original; -: none")
    parser.add_argument("pools", nargs="*", default=POOLS)
    parser.add_argument("--traces", type=Path, help="folder of the .dat files")
    parser.add_argument("--rounds", type=int, default=3)
    said = parser.parse_args()
    folder = None if said.original == "-" else Path(said.original)
    if said.traces is not None:
        traces = said.traces
    elif folder is not None:
        traces = folder / "sims" / "loadgen" / "firefox-ci"
    else:
        sys.exit("--traces: missing; without the original its .dat files are needed")
    print("| pool | original, s (min, median) | farm, s (min, median) | farm ÷ original |")
    print("|---|---|---|---|")
    for pool in said.pools:
        ours, theirs = [], []
        for _ in range(said.rounds):
            if folder is not None:
                theirs.append(original_seconds(folder, pool))
            ours.append(farm_seconds(traces / f"{pool}.dat"))
        other = f"{min(theirs):.3f}, {statistics.median(theirs):.3f}" if theirs else ""
        ratio = f"{statistics.median(ours) / statistics.median(theirs):.2f}" if theirs else ""
        own = f"{min(ours):.3f}, {statistics.median(ours):.3f}"
        print(f"| {pool} | {other} | {own} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
