"""The tables of docs/thesis.md: the thesis's model by policy and slots, medians over job sets.

Run ``python benchmarks/thesis_tables.py [--runs N] [--slots 1,2,4,…]``. Four matrices of 25 jobs,
Pareto(1.161), two builders, the 20 longest of 100 heavy; drawn from NumPy's legacy generator with
seed 1161, so that the numbers are the same everywhere.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from farm.core.commands import Command, EndJob
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw
from farm.core.driver import drive
from farm.core.events import Event
from farm.core.model import Job
from farm.core.policies import POLICIES, PolicyOptions
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.forecasts.runtime.oracle import Oracle
from farm.sim.world import SimulatedWorld

#: name in the table -> policy (random: the drawn permutation, as scores)
NAMES = {
    "ljf": "ljf",
    "sjf": "sjf",
    "random": "score",
    "fifo": "fifo",
    "ljf-aging": "ljf-aging",
    "sjf-aging": "sjf-aging",
}
METRICS = ("makespan", "mean response time", "mean matrix response time")
Numbers = tuple[float, float, float]


def job_sets(runs: int) -> list[tuple[Job, ...]]:
    """Draw the job sets (all thousand, so that a permutation does not depend on ``runs``)."""
    draws = np.random.RandomState(1161)
    times = draws.pareto(1.161, (1000, 100)) + 1.0
    sets = []
    for row in times:
        heavy = row > np.sort(row)[-21]
        place = np.argsort(draws.permutation(100))
        sets.append(
            tuple(
                Job(
                    id=str(n),
                    service_time=float(row[n]),
                    matrix=str(n // 25),
                    heavy=bool(heavy[n]),
                    score=-float(place[n]),
                )
                for n in range(100)
            )
        )
    return sets[:runs]


def play(jobs: Sequence[Job], name: str, slots: int, slowdown: bool) -> Numbers:
    """Run one job set; return the three metrics."""
    key = POLICIES[NAMES[name]](PolicyOptions(aging="matrix"))
    ended: dict[str, float] = {}

    def observe(_: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if type(command) is EndJob:
                ended[command.job.id] = command.finished_at

    law = ContentionLaw(THESIS_TABLE) if slowdown else None
    pool = PoolSpec(name="node", slots=slots, builders=2, law=law)
    world = SimulatedWorld([pool], iter([(0.0, tuple(jobs))]))
    drive(Scheduler(SchedulingRules(policy=key), Oracle(), [pool]), world, observe)
    last: dict[str | None, float] = {}
    for job in jobs:
        last[job.matrix] = max(ended[job.id], last.get(job.matrix, 0.0))
    return max(ended.values()), fmean(ended.values()), fmean(last.values())


def print_tables(sets: Sequence[Sequence[Job]], slots: Sequence[int], slowdown: bool) -> None:
    found = {
        (name, count): list(zip(*(play(jobs, name, count, slowdown) for jobs in sets), strict=True))
        for count in slots
        for name in NAMES
    }
    for place, metric in enumerate(METRICS):
        print(f"\n### {metric}, {'with' if slowdown else 'without'} slowdown")
        print("| slots | " + " | ".join(NAMES) + " |")
        print("|---:|" + "---:|" * len(NAMES))
        for count in slots:
            random = found["random", count][place]
            cells = []
            for name in NAMES:
                values = found[name, count][place]
                pairs = zip(values, random, strict=True)
                ratio = math.exp(fmean(math.log(one / other) for one, other in pairs))
                cells.append(f"{median(values):.1f} ({ratio:.2f})")
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="job sets, at most 1000")
    parser.add_argument("--slots", default="1,2,4,6,8,12,16", help="slots of a builder")
    said = parser.parse_args()
    sets = job_sets(said.runs)
    slots = [int(count) for count in said.slots.split(",")]
    for slowdown in (False, True):
        print_tables(sets, slots, slowdown)


if __name__ == "__main__":
    main()
