"""A week of Firefox CI's recorded pools: this farm beside the Taskcluster provisioning simulator.

Both run the original's sim ``firefox`` (an estimate every second, up to 1000 builders) on the
traces that come with it, in turns, so that the ratios hold on a noisy machine. Whole processes are
measured, from the command to the summary, and the simulation alone; CPU time, as wall time says
more about the machine's other users. The original is not part of this project (MPL-2.0, Node). To
compare with it:

    git clone https://github.com/taskcluster/taskcluster-provisioning-simulator original
    (cd original && npm install --ignore-scripts chalk@4 priorityqueuejs@2 slugid@2)
    python -m benchmarks.firefox_pools original [--rounds N] [POOL ...]

Without it (``-`` in its place, with ``--traces``) only the farm is measured.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from farm.app.runs.simulated_run import simulated_run
from farm.scenario import parse_scenario

POOLS = (
    "mobile-3-decision",
    "mobile-3-b-linux-large",
    "gecko-t-t-win10-64",
    "gecko-3-b-linux",
    "gecko-t-t-linux-large",
)
#: run by Node in the original's folder: prints the CPU seconds of the simulation
ORIGINAL = """
const {Simulator} = require(process.cwd() + '/sims/firefox');
const made = new Simulator({logging: false, commandOptions: {workerPoolId: process.argv[1]}});
const before = process.cpuUsage();
made.run();
const spent = process.cpuUsage(before);
console.log((spent.user + spent.system) / 1e6);
"""


class Spent(NamedTuple):
    """Seconds of a whole process, and the CPU seconds of the simulation in another one."""

    cpu: float
    wall: float
    inner: float


def scenario(trace: Path) -> dict[str, object]:
    """Return the original's sim ``firefox``; its builders' failures are drawn without a seed."""
    pool = {
        "name": "firefox",
        "platform": {"processor": "amd64"},
        "boot_time": "20s",
        "idle_timeout": "15m",
        "provisioner": {"algorithm": "taskcluster", "compatibility": "taskcluster", "max": 1000},
    }
    return {
        "phases": {"ramp_up": "1d", "run": "5d", "ramp_down": "1d"},
        "pools": [pool],
        "workload": [{"trace": {"path": str(trace)}}],
        "scheduling": {"compatibility": "taskcluster"},
    }


def process(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Return the CPU and wall seconds of a whole process; modules are compiled before."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=kept)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def farm_spends(trace: Path, folder: Path) -> Spent:
    """Measure ``farm simulate`` as it is typed; then a run in this process."""
    words = scenario(trace.absolute())
    (folder / "scenario.yaml").write_text(yaml.safe_dump(words), encoding="utf-8")
    command = [sys.executable, "-m", "farm", "simulate", "scenario.yaml"]
    whole = process(command, folder)
    began = time.process_time()
    simulated_run(parse_scenario(words))
    return Spent(*whole, time.process_time() - began)


def original_spends(original: Path, pool: str, folder: Path) -> Spent:
    """Measure one run of the original's command, and one of its simulator."""
    command = ["node", "main.js", "sim", "-q", "-o", str(folder / "store.json"), "firefox"]
    whole = process([*command, "-w", pool], original)
    told = subprocess.run(
        ["node", "-e", ORIGINAL, pool], cwd=original, check=True, capture_output=True, text=True
    )
    return Spent(*whole, float(told.stdout.split()[-1]))


def columns(spent: Sequence[Spent]) -> list[str]:
    """Return min and median of each number."""
    each = list(zip(*spent, strict=True)) or [()] * 3
    return [f"{min(one):.2f}, {statistics.median(one):.2f}" if one else "" for one in each]


def ratio(theirs: Sequence[Spent], ours: Sequence[Spent], name: str) -> str:
    """Return the farm's speed relative to the original, by CPU medians."""
    if not theirs:
        return ""
    times = [statistics.median(getattr(one, name) for one in some) for some in (theirs, ours)]
    return f"{times[0] / times[1]:.1f}"


def main() -> None:
    """Take turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("original", help="a clone of the original; -: none")
    parser.add_argument("pools", nargs="*", default=POOLS)
    parser.add_argument("--traces", type=Path, help="folder of the .dat files")
    parser.add_argument("--rounds", type=int, default=3)
    said = parser.parse_args()
    original = None if said.original == "-" else Path(said.original).absolute()
    if said.traces is not None:
        traces = said.traces
    elif original is not None:
        traces = original / "sims" / "loadgen" / "firefox-ci"
    else:
        sys.exit("--traces: missing; without the original its .dat files are needed")
    print(f"min and median of {said.rounds}, seconds; {os.cpu_count()} processors")
    print("| pool | original: CPU | wall | simulation | farm: CPU | wall | simulation | ", end="")
    print("original ÷ farm: process | simulation |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for pool in said.pools:
            ours, theirs = [], []
            farm_spends(traces / f"{pool}.dat", folder)  # caches are warm
            for _ in range(said.rounds):
                if original is not None:
                    theirs.append(original_spends(original, pool, folder))
                ours.append(farm_spends(traces / f"{pool}.dat", folder))
            ratios = [ratio(theirs, ours, name) for name in ("cpu", "inner")]
            print(
                "|", " | ".join([pool, *columns(theirs), *columns(ours), *ratios]), "|", flush=True
            )


if __name__ == "__main__":
    main()
