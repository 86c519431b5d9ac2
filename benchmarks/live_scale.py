"""A live farm with work for all its slots: how soon a free one has its next job; its makespan.

Every job is submitted in the first second. From the live run's jobs.csv: for each builder with one
slot, the seconds from the end of a job to the start of the next one there (as the scheduler reads
both reports); and the makespan, over that of the same scenario simulated.

    python -m benchmarks.live_scale [--rounds 3] [--builders 1000] [--slots 4] [--jobs 16000]
    python -m benchmarks.live_scale --builders 100 --slots 1 --jobs 3000
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from benchmarks.own_farm import farm

SCENARIO = """
name: scale
pools: [{{name: linux, platform: {{processor: amd64}}, builders: {builders}, slots: {slots}}}]
workload:
  - arrivals:
      every: {between:.9f}s
      count: {jobs}
      service_time: {{uniform: {{min: {least}s, max: {most}s}}}}
live: {{speed: 1}}
"""
#: mean service time, real seconds: so long that two cores can keep up with the rate of ends
RATE = 200.0


def play(folder: Path, scenario: Path, command: str) -> Path:
    """Run or simulate the scenario; return the run's directory."""
    out = folder / command
    farm(command, scenario, "--out", out, "--quiet")
    return out


def makespan(run: Path) -> float:
    return float(json.loads((run / "summary.json").read_bytes())["makespan_s"])


def gaps(run: Path) -> list[float]:
    """Return how long each slot was empty between two jobs, sorted."""
    by_builder: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with (run / "jobs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            by_builder[row["builder"]].append(
                (float(row["started_at_s"]), float(row["finished_at_s"]))
            )
    lives = (sorted(jobs) for jobs in by_builder.values())
    return sorted(after[0] - before[1] for jobs in lives for before, after in pairwise(jobs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--builders", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=16_000)
    wanted = parser.parse_args()
    mean = wanted.builders * wanted.slots / RATE
    text = SCENARIO.format(
        builders=wanted.builders, slots=wanted.slots, jobs=wanted.jobs, between=1 / wanted.jobs,
        least=0.5 * mean, most=1.5 * mean,
    )  # fmt: skip
    ratios = []
    for _ in range(wanted.rounds):
        with tempfile.TemporaryDirectory() as name:
            scenario = Path(name) / "scale.yaml"
            scenario.write_text(text)
            live, simulated = (play(Path(name), scenario, word) for word in ("run", "simulate"))
            ratio = makespan(live) / makespan(simulated)
            ratios.append(ratio)
            print(f"makespan {ratio:.4f} of the simulated one (load {os.getloadavg()[0]:.1f})")
            if wanted.slots == 1:
                found = gaps(live)
                told = (
                    f"{p:g} %: {1e3 * found[int(p / 100 * (len(found) - 1))]:.1f}"
                    for p in (50, 99, 100)
                )
                print(f"  free slot to next start, ms: {', '.join(told)}")
    print(f"median {statistics.median(ratios):.4f} of the simulated one")


if __name__ == "__main__":
    main()
